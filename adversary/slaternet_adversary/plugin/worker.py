"""A process that serves a Python plugin as `slaternet.v1.Plugin`: the reference for plugins in other languages.

    python -m slaternet_adversary.plugin.worker --socket PATH TARGET         serves when the socket is there
    python -m slaternet_adversary.plugin.worker --listen HOST:PORT TARGET    prints `ready HOST:PORT`
    python -m slaternet_adversary.plugin.worker --frames PATH TARGET         the same messages in frames, without gRPC

One call at a time. The plugin's output goes to standard error, and so do tracebacks of its errors. Where standard input
is a pipe, the process ends when that is closed: no worker outlives the game that has started it.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, where `python -m` looks first: files there are nobody's modules

import argparse
import faulthandler
import os
import selectors
import signal
import socket
import stat
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from slaternet.codec import plugin as messages
from slaternet.codec.faults import DETAILS, encode_status
from slaternet.errors import BadSpec, Forgotten, Malformed, PluginFailed, RoundNotOpen, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.numerics.sets import make_set
from slaternet.spec.debugger import DebuggerNeeded, refuse_debuggers
from slaternet.spec.plugins import ADVERSARIES, Loaded, load, plugin_edge
from slaternet.storage.failpoints import failpoint
from slaternet.texts import cleaned
from slaternet_adversary.api import Adversary, Game, History
from slaternet_adversary.plugin.calls import KIND, CheckedRound, new_instance, require_round
from slaternet_adversary.plugin.connections import Failure, answer_frame, items, read_frame
from slaternet_adversary.scoring import NetworkScore

if TYPE_CHECKING:
    import grpc

_LOOK_SECONDS = 0.25

Method = Callable[[bytes], bytes]
"""From request to reply, as PluginWorker has four."""
Reply = tuple[bytes, Failure | None]
"""The reply, or why there is none."""


@dataclass
class _Instance:
    plugin: Adversary
    called: float
    next: int = 1
    rounds: dict[int, Any] = field(default_factory=dict)  # a Round, with optional methods


class PluginWorker:
    """The four methods of the service, from request to reply; an error has the status with which the call ends."""

    def __init__(self, target: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._clock = clock
        self._instances: dict[str, _Instance] = {}

    def describe(self, data: bytes) -> bytes:
        """Make a new instance for a game."""
        request = messages.decode_describe(data)
        self._forget()
        # loaded here, so that the reply says why a plugin cannot be loaded
        loaded = load(ADVERSARIES, self._target, key="adversary.plugin")
        plugin, methods = _make(loaded, request), None
        if request.probe:
            past = History(np.empty((0, request.agents, request.dimension))) if plugin.history else None
            other = _make(loaded, request)
            with _edge("play", 1, of=other):
                functions = other.play(1, past)
            require_round(other, 1, functions)
            methods = _methods(functions, 1, request.dimension)
        name, m, h = uuid.uuid4().hex, plugin.constraints, plugin.history
        self._instances[name] = _Instance(plugin, self._clock())
        # always `rowwise`: a plugin that is not is asked about one agent at a time, by `evaluate`
        return messages.encode_described(
            messages.DescribeReply(name, m, h, rowwise=True, methods=methods, version=loaded.sha256)
        )

    def play(self, data: bytes) -> bytes:
        """Fix the functions of a round."""
        request = messages.decode_play(data)
        instance = self._find(request.instance)
        if request.round != instance.next:
            raise RoundNotOpen(f"round {request.round} was to be played where round {instance.next} is next")
        plugin, game = instance.plugin, instance.plugin.game
        past = History(messages.shaped(request.past, -1, game.agents, game.dimension)) if plugin.history else None
        with _edge("play", request.round, of=plugin):
            functions = plugin.play(request.round, past)
        require_round(plugin, request.round, functions)
        instance.next += 1
        instance.rounds = {t: each for t, each in instance.rounds.items() if t >= request.needed}
        instance.rounds[request.round] = functions
        return messages.encode_played(_methods(functions, request.round, game.dimension))

    def evaluate(self, data: bytes) -> bytes:
        """Evaluate the functions of some agents in a round that was played."""
        asked = messages.decode_evaluate(data)
        failpoint("adversary_during_evaluation")
        plugin, functions = self._round(asked.instance, asked.round, asked.agents)
        k, s, _ = asked.points.shape
        if asked.points.size != k * s * plugin.game.dimension:
            raise Malformed("the points have another dimension than the game")
        at = CheckedRound(plugin, asked.round, functions)

        def ask(wanted: bool, method: str) -> Array | None:
            return at.asked(method, asked.agents, asked.points) if wanted else None

        return messages.encode_evaluated(
            messages.EvaluateReply(
                ask(asked.values, "loss"),
                ask(asked.values, "constraint"),
                ask(asked.loss_gradient, "loss_gradient"),
                ask(asked.constraint_gradient, "constraint_gradient"),
                at.scoring().quadratic(asked.agents) if asked.quadratic else None,
                at.scoring().linear(asked.agents) if asked.linear else None,
            )
        )

    def score(self, data: bytes) -> bytes:
        """Score points by the functions of some agents."""
        asked = messages.decode_score(data)
        plugin, functions = self._round(asked.instance, asked.round, asked.agents)
        points = messages.shaped(asked.points, -1, plugin.game.dimension)
        at = CheckedRound(plugin, asked.round, functions)
        with at.edge("scoring", asked.agents):
            network = NetworkScore(functions, asked.agents, points, plugin.constraints)
        while not at.scored(network.step, asked.agents):
            pass
        at.require_finite(asked.agents, float(network.loss.sum()), float(network.violation.sum()))
        return messages.encode_scored(
            messages.ScoreReply(network.loss.astype(np.float64, copy=False), network.violation)
        )

    def _round(self, name: str, round: int, agents: Agents) -> tuple[Adversary, Any]:
        instance = self._find(name)
        if round not in instance.rounds:
            raise RoundNotOpen(f"round {round} is not played yet, or is not needed any more")
        if agents[-1] >= instance.plugin.game.agents:
            raise Malformed("agents lie within the game")
        return instance.plugin, instance.rounds[round]

    def _find(self, name: str) -> _Instance:
        self._forget()
        if name not in self._instances:
            raise Forgotten("this instance is not known, or not any more")
        self._instances[name].called = self._clock()
        return self._instances[name]

    def _forget(self) -> None:
        oldest = self._clock() - LIMITS.plugin_idle_seconds
        self._instances = {name: each for name, each in self._instances.items() if each.called >= oldest}


# The plugin, and its rounds


def _make(loaded: Loaded, request: messages.DescribeRequest) -> Adversary:
    numbers = messages.from_json(request.set)
    feasible = make_set(str(numbers.pop("kind", "")), request.dimension, numbers)
    game = Game(request.agents, request.dimension, request.seed, feasible)
    options = messages.from_json(request.options)
    with _edge("constructor", of=loaded.factory):
        return new_instance(loaded, game, options)


def _edge(method: str, round: int = 0, *, of: object = None) -> AbstractContextManager[None]:
    return plugin_edge(KIND, "of this worker", method, round, of=of)


def _methods(functions: Any, round: int, dimension: int) -> messages.Methods:  # noqa: ANN401 - a Round, with optional methods
    with _edge("scoring", round, of=functions):
        scored = functions.scoring() if hasattr(functions, "scoring") else functions
    small = 8 * (dimension + 1) ** 2 < LIMITS.plugin_message_bytes
    return messages.Methods(
        loss_gradient=hasattr(functions, "loss_gradient"),
        constraint_gradient=hasattr(functions, "constraint_gradient"),
        network=True,
        quadratic=hasattr(scored, "quadratic") and small,
        linear=hasattr(scored, "linear"),
    )


# The server


def print_traceback(error: BaseException) -> None:
    """Print what a plugin has raised."""
    traceback.print_exception(error)


def _tell_nobody(error: BaseException) -> None:
    """Leave it to the game, which gets the traceback with the answer."""


def answer(method: Method, data: bytes, failed: Callable[[BaseException], object] = print_traceback) -> Reply:
    """Return the answer to a call; `failed` receives first what the plugin raises."""
    try:
        with _edge(method.__name__):
            return method(data), None
    except DebuggerNeeded as error:
        return b"", Failure(error.status, cleaned(str(error)))
    except PluginFailed as error:
        if error.__cause__ is not None:
            failed(error.__cause__)
        fault = error.fault
        if fault is not None and isinstance(error.__cause__, MemoryError) and _has_limited_memory():
            fault = replace(fault, remedy="let it take less memory, or allow its worker more (adversary.memory)")
        sentence = str(error) if fault is None else fault.sentence
        return b"", Failure("ABORTED", cleaned(sentence), fault)
    except BadSpec as error:
        return b"", Failure("INVALID_ARGUMENT", cleaned(str(error)))
    except SlaternetError as error:
        return b"", Failure(error.status, cleaned(str(error)))


def serve(
    worker: PluginWorker,
    address: str,
    answer: Callable[[Method, bytes], Reply] = answer,
    metadata: tuple[tuple[str, str], ...] = (),
) -> tuple["grpc.Server", int]:
    """Serve by gRPC on `address`, "unix:/path" or "host:port"; return the server and its port.

    `metadata` goes to a caller before its call is answered.
    """
    import grpc  # here: a worker that takes frames starts without it

    options = [
        ("grpc.max_receive_message_length", LIMITS.plugin_message_bytes),
        ("grpc.max_send_message_length", LIMITS.plugin_message_bytes),
        ("grpc.max_metadata_size", LIMITS.metadata_bytes),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.server(ThreadPoolExecutor(1), options=options)  # one thread: one call at a time
    methods = {"Describe": worker.describe, "Play": worker.play, "Evaluate": worker.evaluate, "Score": worker.score}

    def guarded(method: Method) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def reply(data: bytes, context: grpc.ServicerContext) -> bytes:
            if metadata:
                context.send_initial_metadata(metadata)
            reply, failure = answer(method, data)
            if failure is None:
                return reply
            code = grpc.StatusCode[failure.code]
            if failure.fault is not None:
                details = encode_status(code.value[0], failure.sentence, failure.fault)
                context.set_trailing_metadata(((DETAILS, details),))
            return context.abort(code, failure.sentence)

        return reply

    handlers: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(guarded(method)) for name, method in methods.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(messages.SERVICE, handlers),))
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        raise BadSpec(f"cannot listen on {address}; choose a free port, or a path of at most 100 bytes") from None
    server.start()
    return server, port


def _has_limited_memory() -> bool:
    import resource  # not on every platform that can play without workers

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


class FrameServer:
    """Serves frames on a unix socket, in a thread of its own; all connections one after the other."""

    def __init__(self, worker: PluginWorker, path: str) -> None:
        self._methods = [worker.describe, worker.play, worker.evaluate, worker.score]
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(path)
            self._listener.listen()
        except OSError:
            self._listener.close()
            raise BadSpec(f"cannot listen on {path}; choose a path of at most 100 bytes") from None
        threading.Thread(target=self._serve, name="frames", daemon=True).start()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    connection = cast("socket.socket", key.fileobj)
                    if connection is self._listener:
                        selector.register(connection.accept()[0], selectors.EVENT_READ)
                    elif not self._answer_frame(connection):
                        selector.unregister(connection)
                        connection.close()

    def _answer_frame(self, connection: socket.socket) -> bool:
        """Answer the calls of the next frame; return whether another may follow."""
        try:
            frame = read_frame(connection.recv)
            answers: list[Reply] = []
            for method, data in items(frame):
                answers.append(answer(self._methods[method], data, _tell_nobody))
                if answers[-1][1] is not None:
                    break
            connection.sendall(answer_frame(answers))
        except (OSError, ValueError, IndexError):  # the game has ended, or it is none of ours
            return False
        return True

    def stop(self, _grace: float) -> None:
        """Do nothing: the thread ends with the process."""


# The process


def main(arguments: list[str], untethered: Callable[[], None] | None = None) -> NoReturn:
    """Serve until a signal, or until standard input is closed where it is a pipe: then call `untethered` first."""
    parser = argparse.ArgumentParser(prog="slaternet_adversary.plugin.worker", description="Serve a Python plugin.")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--socket", metavar="PATH", help="a unix socket")
    place.add_argument("--frames", metavar="PATH", help="a unix socket that takes frames instead of gRPC")
    place.add_argument("--listen", metavar="HOST:PORT", help="port 0 takes a free one")
    parser.add_argument("target", help="name, pkg.module:Class or path/file.py:Class")
    options = parser.parse_args(arguments)
    try:
        _serve(options, untethered)
    except SlaternetError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(0)


def _serve(options: argparse.Namespace, untethered: Callable[[], None] | None) -> None:
    worker, listen = PluginWorker(options.target), options.listen
    for number in (signal.SIGTERM, signal.SIGINT) if untethered is None else ():  # else it ends with its tether
        signal.signal(number, lambda *_: sys.exit(0))
    tether, announce = keep_streams()
    faulthandler.enable(all_threads=False)  # where it crashes in compiled code, the last that it prints is its place
    refuse_debuggers()
    server: grpc.Server | FrameServer
    if options.frames:
        server = FrameServer(worker, options.frames)
    else:
        server, port = serve(worker, listen or f"unix:{options.socket}")
    try:
        if listen:
            os.write(announce, f"ready {listen.rpartition(':')[0]}:{port}\n".encode())
        while tether is None:
            time.sleep(_LOOK_SECONDS)  # a signal that another thread has received does not interrupt it
        while tether is not None and os.read(tether, 4096):
            pass
        if untethered is not None:
            untethered()
    finally:
        server.stop(0)
        last = threading.Timer(LIMITS.grace_seconds, os._exit, (1,))  # for a plugin that does not return
        last.daemon = True
        last.start()


def keep_streams() -> tuple[int | None, int]:
    """Return our standard input, if it is a pipe, and output; the plugin gets neither of them."""
    kind = os.fstat(0).st_mode
    tether, announce = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    cast("Any", sys.stdout).reconfigure(line_buffering=True)
    return tether if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) else None, announce


if __name__ == "__main__":
    main(sys.argv[1:])
