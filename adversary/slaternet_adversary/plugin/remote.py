"""An adversary outside our process: a worker that runs a Python plugin, or a program in any language.

The game sees an `Adversary` like any other. Every call waits, with a deadline; whatever goes wrong is `PluginFailed`,
except a game that the plugin does not support. What comes back has exactly the size that was asked for; whether numbers
are finite is looked at where they are used.
"""

import math
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import grpc
import numpy as np

from slaternet.codec.plugin import (
    DescribeReply,
    DescribeRequest,
    EvaluateReply,
    EvaluateRequest,
    PlayRequest,
    ScoreRequest,
    decode_described,
    decode_evaluated,
    decode_played,
    decode_scored,
    encode_describe,
    encode_evaluate,
    encode_play,
    encode_score,
    to_json,
)
from slaternet.codec.plugin_messages import SERVICE, Methods
from slaternet.codec.wire import clip
from slaternet.errors import Malformed, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet_adversary.api import Adversary, CannotPlay, Game, History

_OPTIONS = [
    ("grpc.max_receive_message_length", LIMITS.plugin_message_bytes),
    ("grpc.max_send_message_length", LIMITS.plugin_message_bytes),
    ("grpc.max_metadata_size", LIMITS.metadata_bytes),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # a connection of its own: what another game has met at this address is nothing to us
    ("grpc.use_local_subchannel_pool", 1),
]


class _Gone(PluginFailed):
    """The plugin does not know our instance (any more)."""


class Remote(Adversary):
    """An adversary behind `slaternet.v1.Plugin`; `connect` makes one."""

    def __init__(self, address: str, game: Game, describe: DescribeRequest, deadline: float, name: str) -> None:
        super().__init__(game)
        self.name = name
        self._address = address
        self._describe = describe
        self._deadline = deadline
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._methods: dict[str, Any] = {}  # of gRPC, made once: looking them up is a good part of a call
        self._played = 0
        self._rounds: weakref.WeakValueDictionary[int, RemoteRound] = weakref.WeakValueDictionary()
        # of every round, where `history` asks for any; on disk when they grow
        self._decisions = tempfile.SpooledTemporaryFile(LIMITS.chunk_bytes)  # noqa: SIM115 - as long as we live

    @classmethod
    def connect(
        cls,
        address: str,
        game: Game,
        options: Mapping[str, object],
        *,
        set: str,
        deadline: float = LIMITS.plugin_seconds,
        probe: bool = False,
        name: str = "",
    ) -> "Remote":
        """Return a new instance of the plugin at `address`, "unix:/path" or "host:port".

        `set` is the feasible set as JSON, `deadline` the seconds each call may take. `probe` asks which methods the
        rounds have, for `methods`. Errors call the plugin `name`, or its address. CannotPlay, with the plugin's own
        sentence, where it does not support the game.
        """
        describe = DescribeRequest(game.agents, game.dimension, game.seed, set, to_json(options), probe)
        remote = cls(address, game, describe, deadline, name or address)
        try:
            remote._introduce(remote._new_instance())
        except BaseException:
            remote.close()
            raise
        return remote

    def close(self) -> None:
        """Close the connection; rounds that were played cannot be asked any more."""
        self._channel.close()
        self._decisions.close()

    def play(self, round: int, past: History | None) -> "RemoteRound":
        """Have the functions of a round fixed; rounds come in order."""
        if past is not None:
            self._remember(round, past.decisions)
        reply = self._ask(PlayRequest("", round, self._needed(round), np.empty(0) if past is None else past.decisions))
        functions = RemoteRound(self, round, self._read("Play", round, decode_played, reply))
        self._rounds[round] = functions
        self._played = round
        return functions

    def evaluate(self, asked: EvaluateRequest, row: int) -> list[EvaluateReply]:
        """Return the answers to a question, cut by agents so that no call carries much more than it may.

        `row` is how many numbers one agent takes, in the question or in the answer.
        """
        answers = []
        for here in _cuts(len(asked.agents), row):
            part = replace(asked, agents=asked.agents[here], points=asked.points[here])
            reply = self._ask(part)
            sizes = part, self.game.dimension, self.constraints
            answers.append(self._read("Evaluate", asked.round, decode_evaluated, reply, *sizes))
        return answers

    def score(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation of points (N, p), in as many calls as their number takes."""
        parts = []
        for here in _cuts(len(points), self.game.dimension):
            reply = self._ask(ScoreRequest("", round, agents, points[here]))
            parts.append(self._read("Score", round, decode_scored, reply, len(points[here])))
        return _joined([each.loss for each in parts]), _joined([each.violation for each in parts])

    # Instances

    def _new_instance(self) -> DescribeReply:
        reply = self._call("Describe", 0, encode_describe(self._describe))
        described: DescribeReply = self._read("Describe", 0, decode_described, reply)
        self._instance = described.instance
        return described

    def _introduce(self, described: DescribeReply) -> None:
        self.constraints = described.constraints
        self.history = described.history
        self.rowwise = described.rowwise
        self.methods = described.methods
        self.version = described.version
        if 8 * self.history * self.game.agents * self.game.dimension > LIMITS.plugin_message_bytes - LIMITS.text_bytes:
            raise self.failed(f"it asks for {self.history} rounds of history, more than a message holds")

    def _replay(self) -> None:
        """Make the instance anew and play it again up to where it was."""
        described = self._new_instance()
        if (described.constraints, described.history, described.version) != (
            self.constraints,
            self.history,
            self.version,
        ):
            raise self.failed("described again it is another plugin than before")
        for round in range(1, self._played + 1):
            request = PlayRequest(self._instance, round, self._needed(self._played), self._recall(round))
            self._call("Play", round, encode_play(request))

    def _needed(self, round: int) -> int:
        """Return the lowest round that someone still holds, or `round`."""
        return min(self._rounds, default=round)

    def _remember(self, round: int, decisions: Array) -> None:
        """Keep the newest decisions: a replay needs those of every round."""
        if len(decisions):
            data = np.ascontiguousarray(decisions[-1]).tobytes()
            self._decisions.seek((round - 2) * len(data))
            self._decisions.write(data)

    def _recall(self, round: int) -> Array:
        size = 8 * self.game.agents * self.game.dimension
        known = min(self.history, round - 1)
        self._decisions.seek((round - 1 - known) * size)
        return np.frombuffer(self._decisions.read(known * size))

    # Calls

    def _ask(self, request: PlayRequest | EvaluateRequest | ScoreRequest) -> bytes:
        """Call our instance; one that is not known any more is made again, once."""
        try:
            return self._send(request)
        except _Gone:
            self._replay()
            return self._send(request)

    def _send(self, request: PlayRequest | EvaluateRequest | ScoreRequest) -> bytes:
        match replace(request, instance=self._instance):
            case PlayRequest() as play:
                return self._call("Play", play.round, encode_play(play))
            case EvaluateRequest() as evaluate:
                return self._call("Evaluate", evaluate.round, encode_evaluate(evaluate))
            case score:
                return self._call("Score", score.round, encode_score(score))

    def _call(self, method: str, round: int, data: bytes) -> bytes:
        try:
            if method not in self._methods:
                self._methods[method] = self._channel.unary_unary(f"/{SERVICE}/{method}")
            return cast("bytes", self._methods[method](data, timeout=self._deadline))
        except grpc.RpcError as error:
            call = cast("grpc.Call", error)
            raise self._raised(_place(method, round), call.code(), call.details() or "") from None
        except ValueError:  # how gRPC says it
            raise self.failed(f"{_place(method, round)} came after the connection was closed") from None

    def _raised(self, where: str, code: grpc.StatusCode, details: str) -> Exception:
        said = clip(" ".join(details.split())) or code.name
        match code:
            case grpc.StatusCode.INVALID_ARGUMENT:
                return CannotPlay(said)
            case grpc.StatusCode.NOT_FOUND:
                return _Gone(str(self.failed(f"{where} does not know the instance that was described and played")))
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return self.failed(f"{where} has not answered within {self._deadline:g} seconds")
            case grpc.StatusCode.UNAVAILABLE:
                return self.failed(f"{where} found no one at {self._address}, or the connection broke ({said})")
            case _:
                return self.failed(f"{where}: {said}")

    def _read(self, method: str, round: int, decode: Any, *arguments: object) -> Any:  # noqa: ANN401 - what it decodes
        try:
            return decode(*arguments)
        except Malformed as error:
            raise self.failed(f"{_place(method, round)} answered with what is none: {error}") from None

    def failed(self, what: str) -> PluginFailed:
        """Return the error that names the plugin."""
        return PluginFailed(f"the adversary plugin {self.name} failed: {what}")


class RemoteRound:
    """The functions of a round that was played elsewhere; it has the optional methods that the plugin says it has."""

    def __init__(self, remote: Remote, round: int, methods: Methods) -> None:
        self._remote = remote
        self._round = round
        self._offered = {
            f"_{name}"
            for name in ("loss_gradient", "constraint_gradient", "quadratic", "linear")
            if getattr(methods, name)
        }
        if methods.network:
            self._offered |= {"_network_loss", "_network_violation"}
        self._kept: dict[tuple[str, bytes], Array] = {}
        self._scored: tuple[bytes, dict[bytes, int], Array, Array] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an optional method
        # looked up, not set in __init__: a round that holds its own methods would outlive its last user
        if f"_{name}" in self.__dict__.get("_offered", ()):
            return object.__getattribute__(self, f"_{name}")
        raise AttributeError(f"the functions of round {self._round} have no {name}")

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points, (k, s)."""
        return self._value("loss", agents, points)

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points, (k, s, m)."""
        return self._value("constraint", agents, points)

    def _value(self, what: str, agents: Agents, points: Array) -> Array:
        """Return one of the two, and keep the other: it is asked for next, be it after the other agents."""
        asked = agents.tobytes() + points.tobytes()
        if (what, asked) in self._kept:
            return self._kept.pop((what, asked))
        answers = self._evaluate(agents, points, 1 + self._remote.constraints, values=True)
        found = {"loss": _joined([each.f for each in answers]), "constraint": _joined([each.g for each in answers])}
        if len(self._kept) >= self._remote.game.agents:
            self._kept.clear()
        value = found.pop(what)
        self._kept |= {(other, asked): kept for other, kept in found.items()}
        return value

    def _loss_gradient(self, agents: Agents, points: Array) -> Array:
        answers = self._evaluate(agents, points, points.shape[2], loss_gradient=True)
        return _joined([each.loss_gradient for each in answers])

    def _constraint_gradient(self, agents: Agents, points: Array) -> Array:
        numbers = self._remote.constraints * points.shape[2]
        answers = self._evaluate(agents, points, numbers, constraint_gradient=True)
        return _joined([each.constraint_gradient for each in answers])

    def _quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        answer = self._remote.evaluate(self._question(agents, quadratic=True), 0)[0]
        return cast("tuple[Array, Array, float]", answer.quadratic)

    def _linear(self, agents: Agents) -> tuple[Array, Array]:
        row = self._remote.constraints * (self._remote.game.dimension + 1)
        parts = [each.linear for each in self._remote.evaluate(self._question(agents, linear=True), row)]
        return _joined([part and part[0] for part in parts]), _joined([part and part[1] for part in parts])

    def _network_loss(self, agents: Agents, points: Array) -> Array:
        return self._score(agents, points)[0]

    def _network_violation(self, agents: Agents, points: Array) -> Array:
        return self._score(agents, points)[1]

    def _score(self, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation at the points, from the last call where it was about all of them."""
        asked, rows = agents.tobytes(), [row.tobytes() for row in points]
        if self._scored is None or self._scored[0] != asked or not self._scored[1].keys() >= set(rows):
            loss, violation = self._remote.score(self._round, agents, points)
            self._scored = (asked, {row: place for place, row in enumerate(rows)}, loss, violation)
        _, places, loss, violation = self._scored
        here = [places[row] for row in rows]
        return loss[here], violation[here]

    def _evaluate(self, agents: Agents, points: Array, numbers: int, **asked: bool) -> list[EvaluateReply]:
        row = points.shape[1] * max(points.shape[2], numbers)
        return self._remote.evaluate(self._question(agents, points, **asked), row)

    def _question(self, agents: Agents, points: Array | None = None, **asked: bool) -> EvaluateRequest:
        points = np.empty((len(agents), 0, 0)) if points is None else points
        return EvaluateRequest("", self._round, agents, points, **asked)


def _place(method: str, round: int) -> str:
    return f"{method} of round {round}" if round else method


def _cuts(count: int, numbers: int) -> list[slice]:
    """Cut `count` rows of that many numbers into pieces that one call may carry; at least a row each."""
    size = max(1, LIMITS.plugin_call_bytes // (8 * max(numbers, 1)))
    return [slice(i * size, (i + 1) * size) for i in range(math.ceil(count / size))]


def _joined(parts: list[Array | None]) -> Array:
    arrays = cast("list[Array]", parts)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
