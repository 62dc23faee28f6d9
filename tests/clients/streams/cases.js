// What a client of streams does in tests/stream_clients.rs, by the interfaces of browsers, which those of npm have too. The same lines
// are said whoever runs it.

/// A WebSocket with its messages in their order.
class Talk {
  #came = [];
  #takes = [];

  constructor(socket) {
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    this.open = new Promise((opened, failed) => {
      socket.addEventListener("open", opened);
      socket.addEventListener("error", () => failed(new Error("no connection")));
    });
    this.closed = new Promise((closed) => {
      socket.addEventListener("close", (event) => closed(event.code));
    });
    socket.addEventListener("message", ({ data }) => {
      const take = this.#takes.shift();
      if (take) take(data);
      else this.#came.push(data);
    });
  }

  next() {
    if (this.#came.length > 0) return Promise.resolve(this.#came.shift());
    return new Promise((take) => this.#takes.push(take));
  }
}

/// Waits until the ids that came are so many, or the stream is over for good; says which there were.
function ids(stream, count) {
  stream.ids ??= [];
  return new Promise((done) => {
    const look = () => {
      if (stream.ids.length >= count || stream.readyState === 2) done(stream.ids.join(" "));
    };
    stream.onmessage = (event) => {
      if (event.data !== `event ${event.lastEventId}`) throw new Error(event.data);
      stream.ids.push(event.lastEventId);
      look();
    };
    stream.onerror = look;
    look();
  });
}

async function echo(client, path) {
  const talk = new Talk(client.socket(path, ["chat.v1", "chat.v2"]));
  await talk.open;
  talk.socket.send("grüße");
  const text = await talk.next();
  const bytes = Uint8Array.from({ length: 70000 }, (_, at) => (at * 7) & 255);
  talk.socket.send(bytes);
  const came = new Uint8Array(await talk.next());
  const same = came.length === bytes.length && came.every((byte, at) => byte === bytes[at]);
  const extension = talk.socket.extensions.split(";")[0] || "-";
  talk.socket.close(1000);
  await client.say(`${path} ${text} ${same} ${talk.socket.protocol} ${extension} ${await talk.closed}`);
}

/// Sends until it is closed.
async function limit(client, path, message) {
  const talk = new Talk(client.socket(path));
  await talk.open;
  let echoed = 0;
  for (;;) {
    talk.socket.send(message);
    const code = await Promise.race([talk.closed, talk.next().then(() => null)]);
    if (code !== null) return client.say(`${path} closed ${code} after ${echoed}`);
    echoed += 1;
  }
}

async function refused(client, path) {
  const talk = new Talk(client.socket(path));
  const opened = await talk.open.then(() => "open", () => "refused");
  await client.say(`${path} ${opened}`);
}

/// The quota ends the stream; the client comes back by itself, and is refused for good.
async function counted(client) {
  const came = await ids(client.events("/sse/count"), Infinity);
  await client.say(`/sse/count ${came}`);
}

/// The connection breaks behind the third event; what comes before the client is back is replayed.
async function shared(client) {
  const stream = client.events("/sse/shared");
  await new Promise((opened) => (stream.onopen = opened));
  await client.say("/sse/shared open");
  await client.say(`/sse/shared ${await ids(stream, 3)}`);
  await client.say(`/sse/shared ${await ids(stream, 6)}`);
  stream.close();
}

async function kept(client) {
  const talk = new Talk(client.socket("/ws/kept"));
  const stream = client.events("/sse/kept");
  await Promise.all([talk.open, new Promise((opened) => (stream.onopen = opened))]);
  // It may come before the echo does.
  const came = ids(stream, 1);
  await client.say("kept open");
  await client.wait();
  talk.socket.send("after");
  await client.say(`kept ${await talk.next()} ${await came}`);
  stream.close();
  talk.socket.close();
}

export async function run(client) {
  await echo(client, "/ws/bare");
  await echo(client, "/ws/policy");
  await limit(client, "/ws/count", "x");
  await limit(client, "/ws/wso2", "x");
  await limit(client, "/ws/small", "x".repeat(2000));
  await refused(client, "/ws/nowhere");
  await counted(client);
  await shared(client);
  await kept(client);
}
