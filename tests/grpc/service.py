"""The service of tests/grpc/python.rs, by grpcio: prints its port, and ends with its input. Messages are bytes."""

import sys
import threading
from concurrent import futures

import grpc

flaky = {"left": 0}


def tell(line):
    """One write: calls have threads of their own, and their lines must not mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def unary(request, call):
    metadata = dict(call.invocation_metadata())
    call.send_initial_metadata([("x-first", metadata.get("x-asked", "-"))])
    call.set_trailing_metadata([("x-last-bin", b"\x00\xff")])
    return request


def gather(requests, call):
    return b",".join(requests)


def spread(request, call):
    for number in range(int(request)):
        yield b"%d" % number


def converse(requests, call):
    for request in requests:
        yield request[::-1]


def fail(request, call):
    code, text = request.decode().split(" ", 1)
    call.abort(next(of for of in grpc.StatusCode if of.value[0] == int(code)), text)


def late(request, call):
    """Tells how long it may take, and then takes longer."""
    tell(f"left {call.time_remaining():.3f}")
    over = threading.Event()
    call.add_callback(over.set)
    over.wait(30)
    tell("over")
    return b""


def set_flaky(request, call):
    flaky["left"] = int(request)
    return b""


def try_flaky(request, call):
    """Is unavailable so many times."""
    if flaky["left"] > 0:
        flaky["left"] -= 1
        call.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
    return b"at last"


def cut(request, call):
    """Fails behind its first message."""
    yield request
    call.abort(grpc.StatusCode.DATA_LOSS, "half of it")


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Gather": grpc.stream_unary_rpc_method_handler(gather),
    "Spread": grpc.unary_stream_rpc_method_handler(spread),
    "Converse": grpc.stream_stream_rpc_method_handler(converse),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Late": grpc.unary_unary_rpc_method_handler(late),
    "SetFlaky": grpc.unary_unary_rpc_method_handler(set_flaky),
    "Flaky": grpc.unary_unary_rpc_method_handler(try_flaky),
    "Cut": grpc.unary_stream_rpc_method_handler(cut),
}

server = grpc.server(futures.ThreadPoolExecutor(16))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tests.Echo", METHODS)])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
tell(port)
sys.stdin.read()
server.stop(0)
