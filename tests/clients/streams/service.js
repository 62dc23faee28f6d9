// The service behind the gateway in tests/stream_clients.rs: event streams by Node, WebSockets by npm `ws`, and the page for a browser.
// Says its port on the first line, and then what it sees. Lines that it reads:
//
//     event ID     sends an event on all open event streams
//     go           lets those go on that wait at /wait
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { WebSocketServer } from "ws";

const streams = new Set();
const waiting = [];
const say = (...words) => console.log(words.join(" "));
const event = (id) => `id: ${id}\ndata: event ${id}\n\n`;

const PAGE = `<!doctype html><title>page</title><script type="module">
import { run } from "/cases.js";
let order = Promise.resolve();
// What is cut off before its answer comes is said again.
const told = (line) => fetch("/told", { method: "POST", body: line }).catch(() => told(line));
const say = (line) => (order = order.then(() => told(line)));
const wait = () => order.then(() => fetch("/wait"));
const socket = (path, protocols) => new WebSocket(location.origin.replace("http", "ws") + path, protocols);
const events = (path) => new EventSource(path);
run({ socket, events, say, wait }).then(() => say("end"), (error) => say("failed: " + error.stack));
</script>`;

async function serve(request, reply) {
  const path = request.url.split("?")[0];
  if (request.method === "POST") {
    let body = "";
    for await (const piece of request) body += piece;
    say("told", body.replaceAll("\n", " "));
    return reply.end();
  }
  if (path === "/page") return reply.writeHead(200, { "content-type": "text/html" }).end(PAGE);
  if (path === "/cases.js") {
    const script = readFileSync(new URL("cases.js", import.meta.url));
    return reply.writeHead(200, { "content-type": "text/javascript" }).end(script);
  }
  if (path === "/wait") return waiting.push(reply);
  if (!path.startsWith("/sse/")) return reply.writeHead(404).end();
  reply.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  reply.write("retry: 20\n\n");
  if (path === "/sse/count") for (let id = 1; id <= 8; id++) reply.write(event(id));
  streams.add(reply);
  reply.on("close", () => streams.delete(reply));
  say("stream", path, request.headers["last-event-id"] ?? "-");
}

const server = createServer((request, reply) => void serve(request, reply));
const sockets = new WebSocketServer({
  server,
  perMessageDeflate: { threshold: 0 },
  handleProtocols: (offered) => (offered.has("chat.v2") ? "chat.v2" : false),
});
sockets.on("connection", (socket, request) => {
  const offered = request.headers["sec-websocket-extensions"]?.split(";")[0] ?? "-";
  say("socket", request.url, offered);
  socket.on("message", (message, binary) => socket.send(message, { binary }));
  socket.on("close", (code) => say("closed", request.url, code));
  socket.on("error", () => {});
});

server.listen(0, "127.0.0.1", () => say(server.address().port));
createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [word, id] = line.split(" ");
    if (word === "event") for (const stream of streams) stream.write(event(id));
    if (word === "go") for (const reply of waiting.splice(0)) reply.end("go");
  })
  .on("close", () => process.exit(0));
