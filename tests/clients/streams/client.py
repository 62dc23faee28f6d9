"""Clients of Python for tests/stream_clients.rs: `websockets`, and `httpx-sse`, over HTTP/2 where the URL is one of https.

Does what cases.js does, and says the same lines. Reads a line where it waits.
"""

import asyncio
import os
import ssl
import sys

import httpx
import httpx_sse
import websockets

URL = sys.argv[1]
AUTHORITY = os.environ.get("AUTHORITY")
TLS = URL.startswith("https")


def say(*words):
    print(*words, flush=True)


def context():
    # One for each client: what it offers by ALPN is its own.
    return ssl.create_default_context(cadata=AUTHORITY)


def socket(path, protocols=None):
    # A busy machine takes its time.
    options = {"open_timeout": 60, "ping_timeout": None} | ({"ssl": context()} if TLS else {})
    return websockets.connect(URL.replace("http", "ws") + path, subprotocols=protocols, proxy=None, **options)


async def echo(path):
    async with socket(path, ["chat.v1", "chat.v2"]) as talk:
        await talk.send("gr\u00fc\u00dfe")
        text = await talk.recv()
        data = bytes((at * 7) & 255 for at in range(70000))
        await talk.send(data)
        same = str(await talk.recv() == data).lower()
        extension = talk.response.headers.get("sec-websocket-extensions", "-").split(";")[0]
        await talk.close(1000)
        say(path, text, same, talk.subprotocol, extension, talk.close_code)


async def pings():
    async with socket("/ws/pings") as talk:
        await (await talk.ping(b"are you there"))
        say("pong are you there")


async def limit(path, message):
    async with socket(path) as talk:
        echoed = 0
        try:
            while True:
                await talk.send(message)
                await talk.recv()
                echoed += 1
        except websockets.ConnectionClosed as closed:
            say(path, "closed", closed.rcvd.code, "after", echoed)


async def refused(path):
    try:
        async with socket(path):
            say(path, "open")
    except websockets.InvalidStatus as error:
        assert error.response.status_code == 404, error
        say(path, "refused")


class Stream:
    """An event stream that comes back as an EventSource does."""

    def __init__(self, client, path):
        self.client, self.path, self.last, self.ids = client, path, None, []
        self.opened = asyncio.Event()

    async def events(self):
        while True:
            lines = {"last-event-id": self.last} if self.last else {}
            try:
                async with httpx_sse.aconnect_sse(self.client, "GET", URL + self.path, headers=lines) as source:
                    if source.response.status_code != 200:
                        return
                    if TLS:
                        assert source.response.http_version == "HTTP/2", source.response.http_version
                    self.opened.set()
                    async for event in source.aiter_sse():
                        if event.data:
                            assert event.data == f"event {event.id}", event
                            self.last = event.id
                            self.ids.append(event.id)
                            yield event.id
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.02)

    async def until(self, count):
        async for _ in self.events():
            if len(self.ids) >= count:
                break
        return " ".join(self.ids)


async def counted(client):
    say("/sse/count", await Stream(client, "/sse/count").until(10**9))


async def shared(client):
    stream = Stream(client, "/sse/shared")
    events = stream.events()
    coming = asyncio.ensure_future(anext(events))
    await stream.opened.wait()
    say("/sse/shared open")
    for count in (3, 6):
        while len(stream.ids) < count:
            await coming
            if len(stream.ids) < 6:
                coming = asyncio.ensure_future(anext(events))
        say("/sse/shared", " ".join(stream.ids))
    await events.aclose()


async def kept(client):
    stream = Stream(client, "/sse/kept")
    events = stream.events()
    coming = asyncio.ensure_future(anext(events))
    async with socket("/ws/kept") as talk:
        await stream.opened.wait()
        say("kept open")
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        await talk.send("after")
        say("kept", await talk.recv(), await coming)
    await events.aclose()


async def main():
    verify = context() if TLS else True
    async with httpx.AsyncClient(http2=TLS, verify=verify, timeout=None, trust_env=False) as client:
        reply = await client.post(URL + "/told", content=b"by fetch")
        say("fetch", reply.status_code)
        await pings()
        await echo("/ws/bare")
        await echo("/ws/policy")
        await limit("/ws/count", "x")
        await limit("/ws/wso2", "x")
        await limit("/ws/small", "x" * 2000)
        await refused("/ws/nowhere")
        await counted(client)
        await shared(client)
        await kept(client)
    say("end")


asyncio.run(main())
