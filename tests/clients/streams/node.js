// Clients of npm for tests/stream_clients.rs. `node.js URL ws|undici`: the WebSocket of that package, and the EventSource and the fetch of
// undici, which speak HTTP/2 where the URL is one of https. Says each line, and reads one where it waits.
import { createInterface } from "node:readline";
import undici from "undici";
import Ws from "ws";
import { run } from "./cases.js";

const [url, kind] = process.argv.slice(2);
const ca = process.env.AUTHORITY;
const dispatcher = new undici.Agent({ allowH2: true, connect: { ca } });
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const say = async (line) => console.log(line);
const wait = () => lines.next();
const events = (path) => new undici.EventSource(url + path, { dispatcher });
const address = (path) => url.replace("http", "ws") + path;

// A WebSocket of its own is over HTTP/1.
const single = new undici.Agent({ connect: { ca } });
const sockets = {
  ws: (path, protocols) => new Ws(address(path), protocols, { ca }),
  undici: (path, protocols) => new undici.WebSocket(address(path), { protocols, dispatcher: single }),
};

/// What only `ws` shows: an answer to its ping, and pings of the gateway, which it answers by itself.
async function pings() {
  const socket = new Ws(address("/ws/pings"), { ca });
  await new Promise((opened) => socket.once("open", opened));
  const answered = new Promise((pong) => socket.once("pong", pong));
  socket.ping("are you there");
  console.log(`pong ${await answered}`);
  const asked = await new Promise((ping) => socket.once("ping", ping));
  socket.send("still here");
  const came = await new Promise((message) => socket.once("message", message));
  console.log(`ping ${asked.length > 0} ${came}`);
  socket.close();
}

async function told() {
  const reply = await undici.fetch(`${url}/told`, { method: "POST", body: "by fetch", dispatcher });
  console.log(`fetch ${reply.status}`);
}

await told();
if (kind === "ws") await pings();
await run({ socket: sockets[kind], events, say, wait });
console.log("end");
process.exit(0);
