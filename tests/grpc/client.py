"""The client of tests/grpc/python.rs, by grpcio: prints what it saw of each kind of call."""

import queue
import sys
import threading

import grpc

WAIT = 50
# Long enough for a call to arrive on a busy machine before it is over.
LATE = 4

channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_retries", 0)])
grpc.channel_ready_future(channel).result(WAIT)


def path(method, service="tests.Echo"):
    return f"/{service}/{method}"


def said(title, call, *arguments, **named):
    """The status of a call that fails, or what it returns."""
    try:
        named.setdefault("timeout", WAIT)
        result = call(*arguments, **named)
        print(title, result if isinstance(result, bytes) else list(result), flush=True)
    except grpc.RpcError as error:
        print(title, error.code().name, error.details(), flush=True)


def unary():
    call = channel.unary_unary(path("Unary"))
    reply, ended = call.with_call(b"x" * 1_000_000, timeout=WAIT, metadata=[("x-asked", "it")])
    first = dict(ended.initial_metadata())["x-first"]
    print("unary", len(reply), first, dict(ended.trailing_metadata())["x-last-bin"], flush=True)
    print("empty", channel.unary_unary(path("Unary"))(b"", timeout=WAIT), flush=True)


def streams():
    numbers = (b"%d" % number for number in range(5))
    print("gather", channel.stream_unary(path("Gather"))(numbers, timeout=WAIT), flush=True)
    spread = channel.unary_stream(path("Spread"))
    print("spread", len(list(spread(b"1000", timeout=WAIT))), list(spread(b"0", timeout=WAIT)))
    # Each message is answered before the next one is sent.
    asked = queue.Queue()
    replies = channel.stream_stream(path("Converse"))(iter(asked.get, None), timeout=WAIT)
    for word in [b"abc", b"de", b""]:
        asked.put(word)
        print("converse", next(replies))
    asked.put(None)
    print("converse", list(replies), replies.code().name, flush=True)


def ends():
    said("fail", channel.unary_unary(path("Fail")), "9 gr\u00fcn % \n \U0001f600".encode())
    said("cut", channel.unary_stream(path("Cut")), b"first")
    said("unknown", channel.unary_unary(path("Nothing")), b"")
    said("late", channel.unary_unary(path("Late")), b"", timeout=LATE)
    started = threading.Event()
    call = channel.unary_unary(path("Late")).future(b"", timeout=WAIT)
    call.add_done_callback(lambda _: started.set())
    call.cancel()
    started.wait(WAIT)
    print("cancel", call.cancelled(), flush=True)


def gateway():
    said("no route", channel.unary_unary(path("Unary", "tests.Nobody")), b"")
    said("no key", channel.unary_unary(path("Unary", "tests.Kept")), b"")
    said("gone", channel.unary_unary(path("Unary", "tests.Gone")), b"")


def flaky():
    channel.unary_unary(path("SetFlaky"))(b"2", timeout=WAIT)
    said("flaky", channel.unary_unary(path("Flaky")), b"")
    channel.unary_unary(path("SetFlaky"))(b"3", timeout=WAIT)
    said("flakier", channel.unary_unary(path("Flaky")), b"")


for name in sys.argv[2:]:
    {"unary": unary, "streams": streams, "ends": ends, "gateway": gateway, "flaky": flaky}[name]()
channel.close()
