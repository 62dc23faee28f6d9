// Servers of HTTP by Node, for tests/http2_peers.rs: over TLS `h2`, `h1` or `both`, or HTTP/2 without, `h2c`. Certificate and key are
// named by CERTIFICATE and KEY. Says its port.
import { readFileSync } from "node:fs";
import * as http2 from "node:http2";
import * as https from "node:https";

// GET says who answers and in what; POST gives the body back piece by piece, and its length as a trailer.
async function answer(request, reply) {
  if (request.method === "GET") return reply.end(`node HTTP/${request.httpVersion}`);
  reply.writeHead(200, { trailer: "x-length" });
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    if (!reply.write(piece)) await new Promise((drained) => reply.once("drain", drained));
  }
  reply.addTrailers({ "x-length": String(length) });
  reply.end();
}

const kind = process.argv[2];
const read = (variable) => process.env[variable] && readFileSync(process.env[variable]);
const tls = { cert: read("CERTIFICATE"), key: read("KEY") };
const make = {
  h2c: () => http2.createServer(),
  h2: () => http2.createSecureServer({ ...tls, allowHTTP1: false }),
  both: () => http2.createSecureServer({ ...tls, allowHTTP1: true }),
  h1: () => https.createServer(tls),
};
const server = make[kind]();
server.on("request", (request, reply) => answer(request, reply).catch(() => reply.destroy()));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
