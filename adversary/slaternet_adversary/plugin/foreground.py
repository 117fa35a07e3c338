"""A plugin served by gRPC in the main thread of a process that keeps its terminal: there debuggers and signals work.

gRPC answers calls in threads of its own; here such a thread only waits for the main thread, which calls the plugin.
Callers are told that their calls may take as long as they take: a user may stand at a debugger's prompt.
"""

import queue
import signal
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from slaternet_adversary.plugin.connections import UNHURRIED, Failure
from slaternet_adversary.plugin.worker import Method, PluginWorker, Reply, answer, print_traceback, serve

_STOPPED = b"", Failure("ABORTED", "its process was interrupted, or its debugger was quit")

_Call = tuple[Method, bytes, "Future[Reply]"]


class Foreground:
    """Serves a plugin from the beginning of the block to its end; `run` calls it.

    `failed` receives what the plugin raises, before the caller does.
    """

    def __init__(self, target: str, address: str, failed: Callable[[BaseException], object] = print_traceback) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._failed = failed
        self._server, port = serve(PluginWorker(target), address, self._in_turn, metadata=(UNHURRIED,))
        self.address = f"{address.rpartition(':')[0]}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._server.stop(None)

    def run(self) -> None:
        """Answer calls in this thread, the main one, until `stop`; KeyboardInterrupt and BdbQuit end it too."""
        while True:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # pdb leaves its own behind
            call = self._calls.get()
            if call is None:
                return
            method, data, answered = call
            reply: Reply = _STOPPED
            try:
                reply = answer(method, data, self._failed)
            finally:
                answered.set_result(reply)

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._calls.put(None)

    def _in_turn(self, method: Method, data: bytes) -> Reply:
        answered: Future[Reply] = Future()
        self._calls.put((method, data, answered))
        return answered.result()
