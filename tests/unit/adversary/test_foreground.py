"""A plugin that is served in the main thread of the process with the terminal."""

import threading
from bdb import BdbQuit
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from slaternet.codec.plugin import (
    SERVICE,
    DescribeReply,
    DescribeRequest,
    decode_described,
    encode_describe,
    encode_described,
    to_json,
)
from slaternet_adversary.plugin.connections import UNHURRIED, CallFailed, GrpcConnection
from slaternet_adversary.plugin.foreground import Foreground
from slaternet_adversary.plugin.worker import PluginWorker, serve

PASSED = -1.0
"""A deadline that has passed before anything can be answered."""
SET = '{"kind": "box", "lower": -1.0, "upper": 1.0}'
CODE = """
import threading
from bdb import BdbQuit

from slaternet_adversary import Adversary


class Mine(Adversary):
    constraints = 1

    def __init__(self, game, *, how=""):
        super().__init__(game)
        if how == "where":
            self.history = int(threading.current_thread() is threading.main_thread())
        if how == "quit":
            raise BdbQuit
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "fail":
            raise ZeroDivisionError("no denominator")

    def play(self, round, past):
        raise AssertionError("nobody plays")
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return f"{path}:Mine"


def describing(address: str, how: str = "", deadline: float = 60.0) -> DescribeReply:
    """Have an instance described."""
    connection = GrpcConnection(address)
    try:
        request = encode_describe(DescribeRequest(4, 3, 7, SET, to_json({"how": how}), False))
        return decode_described(connection.call("Describe", request, deadline))
    finally:
        connection.close()


def meanwhile(foreground: Foreground, work: Callable[[], object]) -> "Future[object]":
    """Do something in another thread, while the plugin is called in this one."""
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(work)
        done.add_done_callback(lambda _: foreground.stop())
        foreground.run()
        return done


def test_a_plugin_is_called_in_the_main_thread(target: str) -> None:
    with Foreground(target, "127.0.0.1:0") as foreground:
        reply = meanwhile(foreground, lambda: describing(foreground.address, "where")).result()

    assert isinstance(reply, DescribeReply)
    assert reply.history == 1


@pytest.mark.parametrize(("how", "kind"), [("quit", BdbQuit), ("interrupt", KeyboardInterrupt)])
def test_who_quits_or_interrupts_ends_the_call_and_gets_the_terminal_back(
    target: str, how: str, kind: type[BaseException]
) -> None:
    with Foreground(target, "127.0.0.1:0") as foreground, ThreadPoolExecutor(1) as threads:
        called = threads.submit(describing, foreground.address, how)
        with pytest.raises(kind):
            foreground.run()

        with pytest.raises(CallFailed, match=r"ABORTED: its process was interrupted, or its debugger was quit"):
            called.result()


def test_what_a_plugin_raises_is_received_before_its_caller_is_told(target: str) -> None:
    received: list[BaseException] = []
    with Foreground(target, "127.0.0.1:0", received.append) as foreground:
        called = meanwhile(foreground, lambda: describing(foreground.address, "fail"))

    with pytest.raises(CallFailed, match="no denominator"):
        called.result()
    assert [type(error) for error in received] == [ZeroDivisionError]


def test_calls_of_it_have_no_deadline_and_those_of_others_have(target: str) -> None:
    server, port = serve(PluginWorker(target), "127.0.0.1:0")
    other = GrpcConnection(f"127.0.0.1:{port}")
    with Foreground(target, "127.0.0.1:0") as foreground:
        connection = GrpcConnection(foreground.address)

        def calls() -> None:
            for each, code in ((connection, "INVALID_ARGUMENT"), (other, "DEADLINE_EXCEEDED")):
                each.call("Describe", encode_describe(DescribeRequest(4, 3, 7, SET, "{}", False)), 60.0)
                with pytest.raises(CallFailed) as raised:
                    each.call("Play", b"no message", PASSED)
                assert raised.value.code == code

        meanwhile(foreground, calls).result()
        connection.close()
    other.close()
    server.stop(None)


@contextmanager
def slow_at_first() -> Iterator[tuple[str, list[bytes]]]:
    """Serve a plugin whose user stands at a prompt within the constructor until it is described once more."""
    again, calls = threading.Event(), list[bytes]()

    def describe(data: bytes, context: grpc.ServicerContext) -> bytes:
        context.send_initial_metadata((UNHURRIED,))
        calls.append(data)
        if len(calls) > 1:
            again.set()
        assert again.wait(60.0)
        return encode_described(DescribeReply("a", 1, 0, True, None, "0" * 64))

    server = grpc.server(ThreadPoolExecutor(2))
    handlers = {"Describe": grpc.unary_unary_rpc_method_handler(describe)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", calls
    finally:
        again.set()
        server.stop(None)


def test_a_first_call_that_takes_longer_than_its_deadline_is_made_once_more_without_one() -> None:
    with slow_at_first() as (address, calls):
        reply = describing(address, deadline=2.0)

    assert reply.constraints == 1
    assert len(calls) == 2
    assert calls[0] == calls[1]
