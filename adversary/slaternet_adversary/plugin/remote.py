"""An adversary outside our process: a worker that runs a Python plugin, or a program in any language.

The game sees an `Adversary` like any other. Every call waits, with a deadline; every failure is `PluginFailed`, except
that the plugin does not support the game. Replies have exactly the size asked for; whether numbers are finite is
checked where they are used.

An instance that is lost, because its process was killed or has forgotten it, is made again and played again from round
1. On the way some of its answers are asked for once more: Diverged where one is another than before.
"""

import math
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import grpc
import numpy as np
import structlog

from slaternet.codec import plugin as messages
from slaternet.errors import Malformed, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.texts import cleaned
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.plugin.calls import InstanceLost, Served, contradiction, first_difference
from slaternet_adversary.plugin.kept_answers import KeptAnswers

log = structlog.get_logger()

_OPTIONS = [
    ("grpc.max_receive_message_length", LIMITS.plugin_message_bytes),
    ("grpc.max_send_message_length", LIMITS.plugin_message_bytes),
    ("grpc.max_metadata_size", LIMITS.metadata_bytes),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # a connection of its own: failures of another game at this address must not affect us
    ("grpc.use_local_subchannel_pool", 1),
]

_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)
"""How a call ends where its connection breaks."""

_CALLS: dict[type, tuple[str, Callable[[Any], bytes]]] = {
    messages.PlayRequest: ("Play", messages.encode_play),
    messages.EvaluateRequest: ("Evaluate", messages.encode_evaluate),
    messages.ScoreRequest: ("Score", messages.encode_score),
}

T = TypeVar("T")


class Remote(Adversary):
    """An adversary behind `slaternet.v1.Plugin`; `connect` makes one."""

    def __init__(
        self, served: Served, game: Game, describe: messages.DescribeRequest, deadline: float, name: str
    ) -> None:
        super().__init__(game)
        self.name = name
        self._served = served
        self._describe = describe
        self._deadline = deadline
        self._address = ""
        self._channel: grpc.Channel | None = None
        self._instance = ""  # empty: there is none, or it is lost
        self._kept = KeptAnswers()
        self._methods: dict[str, Any] = {}  # of gRPC, made once: that is a good part of a call
        self._played = 0
        self._rounds: weakref.WeakValueDictionary[int, RemoteRound] = weakref.WeakValueDictionary()
        # of every round, for a plugin with history: a replay needs all; on disk when they grow
        self._decisions = tempfile.SpooledTemporaryFile(LIMITS.chunk_bytes)  # noqa: SIM115 - closed by `close`

    @classmethod
    def connect(
        cls,
        served: Served,
        game: Game,
        options: Mapping[str, object],
        *,
        set: str,
        deadline: float = LIMITS.plugin_seconds,
        probe: bool = False,
        name: str,
    ) -> "Remote":
        """Return a new instance of the plugin that is served there.

        `set` is the feasible set as JSON, `deadline` the seconds each call may take. `probe` asks which methods the
        rounds have, for `methods`. Errors call the plugin `name`. CannotPlay, with the plugin's own
        sentence, where it does not support the game.
        """
        describe = messages.DescribeRequest(
            game.agents, game.dimension, game.seed, set, messages.to_json(options), probe
        )
        remote = cls(served, game, describe, deadline, name)
        try:
            remote._introduce(remote._persist(remote._new_instance))
        except BaseException:
            remote.close()
            raise
        return remote

    def close(self) -> None:
        """Close the connection; rounds that were played cannot be asked any more."""
        if self._channel is not None:
            self._channel.close()
        self._decisions.close()

    def play(self, round: int, past: History | None) -> "RemoteRound":
        """Have the functions of a round fixed; rounds come in order."""
        decisions = np.empty(0) if past is None else past.decisions
        if len(decisions):
            newest = np.ascontiguousarray(decisions[-1]).tobytes()
            self._decisions.seek((round - 2) * len(newest))
            self._decisions.write(newest)
        methods = self._ask(messages.PlayRequest("", round, self._needed(round), decisions), messages.decode_played)
        functions = RemoteRound(self, round, methods)
        self._rounds[round] = functions
        self._played = round
        return functions

    def evaluate(self, asked: messages.EvaluateRequest, row: int) -> list[messages.EvaluateReply]:
        """Return the answers to a question, cut by agents so that no call carries much more than it may.

        `row` is how many numbers one agent takes, in the question or in the answer.
        """
        answers = []
        for here in _cuts(len(asked.agents), row):
            part = replace(asked, agents=asked.agents[here], points=asked.points[here])
            answers.append(self._ask(part, messages.decode_evaluated, part, self.game.dimension, self.constraints))
            self._kept.keep(part, answers[-1])
        return answers

    def score(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation of points (N, p), in as many calls as their number takes."""
        parts = [
            self._ask(messages.ScoreRequest("", round, agents, points[here]), messages.decode_scored, len(points[here]))
            for here in _cuts(len(points), self.game.dimension)
        ]
        return _joined([each.loss for each in parts]), _joined([each.violation for each in parts])

    # Instances

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt returns; repeat it where the instance is lost meanwhile, so often and no more."""
        for _ in range(LIMITS.plugin_restarts):
            try:
                return attempt()
            except InstanceLost as lost:
                self._instance = ""
                log.warning("the plugin is played again", reason=str(lost))
        try:
            return attempt()
        except InstanceLost as lost:
            times = LIMITS.plugin_restarts
            raise PluginFailed(f"{lost}; it was played again {times} times for this call, and lost each time") from None

    def _new_instance(self) -> messages.DescribeReply:
        address = self._served.address()
        if address != self._address:
            if self._channel is not None:
                self._channel.close()
            self._address, self._channel = address, grpc.insecure_channel(address, options=_OPTIONS)
            self._methods.clear()
        described = self._call("Describe", 0, messages.encode_describe(self._describe), messages.decode_described)
        self._instance = described.instance
        return described

    def _introduce(self, described: messages.DescribeReply) -> None:
        self.constraints, self.history, self.rowwise = described.constraints, described.history, described.rowwise
        self.methods, self.version = described.methods, described.version
        if 8 * self.history * self.game.agents * self.game.dimension > LIMITS.plugin_message_bytes - LIMITS.text_bytes:
            raise self.failed(f"it asks for {self.history} rounds of history, more than a message holds")

    def _replay(self) -> None:
        """Make a new instance and play it up to the newest round; Diverged where it is not the one it was."""
        new = self._new_instance()
        if (new.constraints, new.history, new.version) != (self.constraints, self.history, self.version):
            raise self.failed("described again it is another plugin than before")
        size = 8 * self.game.agents * self.game.dimension
        for round in range(1, self._played + 1):
            known = min(self.history, round - 1)
            self._decisions.seek((round - 1 - known) * size)
            past = np.frombuffer(self._decisions.read(known * size))
            needed = min(round, self._needed(self._played))  # this round at least, to be asked about
            request = messages.PlayRequest(self._instance, round, needed, past)
            self._call("Play", round, messages.encode_play(request), bytes)
            for asked, answer in self._kept.of(round):
                self._compare(replace(asked, instance=self._instance), answer)

    def _compare(self, asked: messages.EvaluateRequest, answer: messages.EvaluateReply) -> None:
        """Ask a question again."""
        sizes = asked, self.game.dimension, self.constraints
        data = messages.encode_evaluate(asked)
        again = self._call("Evaluate", asked.round, data, messages.decode_evaluated, *sizes)
        agent = first_difference(asked.agents, (answer.f, answer.g), (again.f, again.g))
        if agent is not None:
            raise contradiction(self, asked.round, agent)

    def _needed(self, round: int) -> int:
        """Return the lowest round that is still in use, or `round`."""
        return min(self._rounds, default=round)

    # Calls

    def _ask(
        self,
        request: messages.PlayRequest | messages.EvaluateRequest | messages.ScoreRequest,
        decode: Callable[..., T],
        *sizes: object,
    ) -> T:
        """Call our instance; make it again where it is lost."""
        method, encode = _CALLS[type(request)]

        def attempt() -> T:
            if not self._instance:
                self._replay()
            return self._call(method, request.round, encode(replace(request, instance=self._instance)), decode, *sizes)

        return self._persist(attempt)

    def _call(self, method: str, round: int, data: bytes, decode: Callable[..., T], *sizes: object) -> T:
        where = f"{method} of round {round}" if round else method
        assert self._channel is not None  # there is one since the first instance was made
        try:
            if method not in self._methods:
                self._methods[method] = self._channel.unary_unary(f"/{messages.SERVICE}/{method}")
            reply = self._methods[method](data, timeout=self._deadline)
        except grpc.RpcError as error:
            call = cast("grpc.Call", error)
            raise self._raised(where, call.code(), call.details() or "") from None
        except ValueError:  # gRPC's error for a closed channel
            raise self.failed(f"{where} came after the connection was closed") from None
        try:
            return decode(reply, *sizes)
        except Malformed as error:
            raise self.failed(f"{where} answered with what is none: {error}") from None

    def _raised(self, where: str, code: grpc.StatusCode, details: str) -> Exception:
        said = cleaned(details) or code.name
        match code:
            case grpc.StatusCode.INVALID_ARGUMENT:
                return CannotPlay(said)
            case grpc.StatusCode.NOT_FOUND:
                return InstanceLost(
                    str(self.failed(f"{where} does not know the instance that was described and played"))
                )
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return self.failed(f"{where} has not answered within {self._deadline:g} seconds")
            case _ if code in _BROKEN and self._served.killed(self._address):
                return InstanceLost(str(self.failed(f"{where} lost its process ({said})")))
            case grpc.StatusCode.UNAVAILABLE:
                return self.failed(f"{where} found no one at {self._address}, or the connection broke ({said})")
            case _:
                return self.failed(f"{where}: {said}")

    def failed(self, what: str) -> PluginFailed:
        """Return the error that names the plugin."""
        return PluginFailed(f"the adversary plugin {self.name} failed: {what}")


class RemoteRound:
    """The functions of a round that was played elsewhere, with the optional methods that the plugin offers."""

    def __init__(self, remote: Remote, round: int, methods: messages.Methods) -> None:
        self._remote = remote
        self._round = round
        optional = ("loss_gradient", "constraint_gradient", "quadratic", "linear")
        self._offered = {f"_{name}" for name in optional if getattr(methods, name)}
        if methods.network:
            self._offered |= {"_network_loss", "_network_violation"}
        self._kept: dict[tuple[str, bytes], Array] = {}
        self._scored: tuple[bytes, dict[bytes, int], Array, Array] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an optional method
        # looked up, not set in __init__: a round that refers to its own methods would outlive its last user
        if f"_{name}" in self.__dict__.get("_offered", ()):
            return object.__getattribute__(self, f"_{name}")
        raise AttributeError(f"the functions of round {self._round} have no {name}")

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points, (k, s)."""
        return self._value("f", agents, points)

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points, (k, s, m)."""
        return self._value("g", agents, points)

    def _value(self, name: str, agents: Agents, points: Array) -> Array:
        """Return f or g at the points and cache the other, which a later call will ask for."""
        asked = agents.tobytes() + points.tobytes()
        if (name, asked) in self._kept:
            return self._kept.pop((name, asked))
        if len(self._kept) >= self._remote.game.agents:
            self._kept.clear()
        answers = self._evaluate(agents, 1 + self._remote.constraints, points, values=True)
        f, g = _joined([each.f for each in answers]), _joined([each.g for each in answers])
        value, other, kept = (f, "g", g) if name == "f" else (g, "f", f)
        self._kept[other, asked] = kept
        return value

    def _loss_gradient(self, agents: Agents, points: Array) -> Array:
        answers = self._evaluate(agents, points.shape[2], points, loss_gradient=True)
        return _joined([each.loss_gradient for each in answers])

    def _constraint_gradient(self, agents: Agents, points: Array) -> Array:
        answers = self._evaluate(agents, self._remote.constraints * points.shape[2], points, constraint_gradient=True)
        return _joined([each.constraint_gradient for each in answers])

    def _quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        return cast("tuple[Array, Array, float]", self._evaluate(agents, 0, quadratic=True)[0].quadratic)

    def _linear(self, agents: Agents) -> tuple[Array, Array]:
        row = self._remote.constraints * (self._remote.game.dimension + 1)
        parts = [each.linear for each in self._evaluate(agents, row, linear=True)]
        return _joined([part and part[0] for part in parts]), _joined([part and part[1] for part in parts])

    def _evaluate(
        self, agents: Agents, numbers: int, points: Array | None = None, **asked: bool
    ) -> list[messages.EvaluateReply]:
        """Ask about agents; `numbers` is how many the answer holds for a point, or for an agent without points."""
        row = numbers if points is None else points.shape[1] * max(points.shape[2], numbers)
        points = np.empty((len(agents), 0, 0)) if points is None else points
        return self._remote.evaluate(messages.EvaluateRequest("", self._round, agents, points, **asked), row)

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


def _cuts(count: int, numbers: int) -> list[slice]:
    """Cut `count` rows of that many numbers into pieces that one call may carry; at least a row each."""
    size = max(1, LIMITS.plugin_call_bytes // (8 * max(numbers, 1)))
    return [slice(i * size, (i + 1) * size) for i in range(math.ceil(count / size))]


def _joined(parts: list[Array | None]) -> Array:
    arrays = cast("list[Array]", parts)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
