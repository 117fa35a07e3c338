"""An adversary outside our process: a worker that runs a Python plugin, or a program in any language.

The game sees an `Adversary` like any other. Every call waits, with a deadline; every failure is `PluginFailed`, except
that the plugin does not support the game. Replies have exactly the size asked for; whether numbers are finite is
checked where they are used.

An instance that is lost, because its process was killed or has forgotten it, is made again and played again from round
1; where nobody answers any more at a program's address, that is dialled again for some time before. On the way answers
are asked for once more: Diverged where one is another than before.
"""

import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import structlog

from slaternet.codec import plugin as messages
from slaternet.errors import Malformed, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.plugin_faults import REMEDY, PluginFault
from slaternet.spec.debugger import DebuggerNeeded
from slaternet.texts import cleaned
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.plugin.calls import (
    KIND,
    InstanceLost,
    Served,
    ServerGone,
    Unanswered,
    contradiction,
    first_difference,
)
from slaternet_adversary.plugin.connections import FRAMES, CallFailed, Connection, FrameConnection, connect
from slaternet_adversary.plugin.kept_answers import KeptAnswers
from slaternet_adversary.plugin.remote_round import RemoteRound, called_method, cuts, joined

log = structlog.get_logger()

_BROKEN = ("UNAVAILABLE", "UNKNOWN", "INTERNAL", "CANCELLED")
"""How a call ends where its connection breaks."""

_GONE = ("UNAVAILABLE", "CANCELLED")
"""How a call ends where the process at the other end is gone, or is ending."""
_REMOVED = "Stream removed"
"""What gRPC says of some calls whose connection was reset, with status UNKNOWN."""
_FIRST_PAUSE = 0.05

_CALLS: dict[type, tuple[str, Callable[[Any], bytes]]] = {
    messages.DescribeRequest: ("Describe", messages.encode_describe),
    messages.PlayRequest: ("Play", messages.encode_play),
    messages.EvaluateRequest: ("Evaluate", messages.encode_evaluate),
    messages.ScoreRequest: ("Score", messages.encode_score),
}

T = TypeVar("T")
Request = messages.DescribeRequest | messages.PlayRequest | messages.EvaluateRequest | messages.ScoreRequest
R = TypeVar("R", messages.PlayRequest, messages.EvaluateRequest, messages.ScoreRequest)


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
        self._connection: Connection | None = None
        self._instance = ""  # empty: there is none, or it is lost
        self._introduced = False
        self.calling: tuple[str, int, int] | None = None
        """The method that was called and not answered yet, of which rounds; another thread may look."""
        self._closing = threading.Event()
        self._kept = KeptAnswers()
        self._ahead: dict[int, messages.Methods] = {}  # of rounds that `fetch` has played
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
        """Close the connection, or stop dialling; rounds that were played cannot be asked any more."""
        self._closing.set()
        if self._connection is not None:
            self._connection.close()
        self._decisions.close()

    def renew(self) -> None:
        """Have another process, where the game starts it, play what was played when it is called next."""
        self._served.renew()
        self._instance = self._address = ""

    def play(self, round: int, past: History | None) -> RemoteRound:
        """Have the functions of a round fixed; rounds come in order."""
        methods = self._ahead.pop(round, None)
        if methods is None:
            methods = self._ask(self._play_request(round, past, self._needed(round)), messages.decode_played)
        functions = RemoteRound(self, round, methods)
        self._rounds[round] = functions
        self._played = round
        return functions

    def _play_request(self, round: int, past: History | None, needed: int) -> messages.PlayRequest:
        decisions = np.empty(0) if past is None else past.decisions
        if len(decisions):
            newest = np.ascontiguousarray(decisions[-1]).tobytes()
            self._decisions.seek((round - 2) * len(newest))
            self._decisions.write(newest)
        return messages.PlayRequest("", round, needed, decisions)

    def evaluate(self, asked: messages.EvaluateRequest, row: int) -> list[messages.EvaluateReply]:
        """Return the answers to a question, cut by agents so that no call carries much more than it may.

        `row` is how many numbers one agent takes, in the question or in the answer.
        """
        answers = []
        for here in cuts(len(asked.agents), row):
            part = replace(asked, agents=asked.agents[here], points=asked.points[here])
            answers.append(self._ask(part, messages.decode_evaluated, part, self.game.dimension, self.constraints))
            self._kept.keep(part, answers[-1])
        return answers

    def score(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation of points (N, p), in as many calls as their number takes."""
        parts = [
            self._ask(messages.ScoreRequest("", round, agents, points[here]), messages.decode_scored, len(points[here]))
            for here in cuts(len(points), self.game.dimension)
        ]
        return joined([each.loss for each in parts]), joined([each.violation for each in parts])

    # Calls ahead: what they bring is kept, and the methods above and those of rounds find it there

    async def play_ahead(self, rounds: Sequence[tuple[int, History | None]]) -> bool:
        """Have the functions of rounds fixed; False where that takes a call that blocks."""
        needed = self._needed(rounds[0][0])
        replies = await self._fetch([self._play_request(*each, needed) for each in rounds])
        for request, reply in replies:
            self._ahead[request.round] = self._decoded(request, reply, messages.decode_played)
        return bool(replies)

    async def evaluate_now(self, round: int, agents: Agents, points: Array) -> messages.EvaluateReply | None:
        """Return the values of a round at some points; None where that takes calls that block."""
        asked = messages.EvaluateRequest("", round, agents, points, values=True)
        if len(cuts(len(agents), points.shape[1] * max(points.shape[2], 1 + self.constraints))) > 1:
            return None
        for _, reply in await self._fetch([asked]):
            sizes = asked, self.game.dimension, self.constraints
            answer = self._decoded(asked, reply, messages.decode_evaluated, *sizes)
            self._kept.keep(asked, answer)
            return answer
        return None

    async def score_ahead(self, wanted: Sequence[tuple[int, Agents, Array]]) -> bool:
        """Have points of rounds scored; False where that takes calls that block."""
        if any(len(cuts(len(points), self.game.dimension)) > 1 for _, _, points in wanted):
            return False
        replies = await self._fetch([messages.ScoreRequest("", *each) for each in wanted])
        for request, reply in replies:
            scored = self._decoded(request, reply, messages.decode_scored, len(request.points))
            self._rounds[request.round].keep_score(request.agents, request.points, scored)
        return bool(replies)

    async def _fetch(self, requests: Sequence[R]) -> list[tuple[R, bytes]]:
        """Return requests with their replies; none where calls must block, or the instance is lost: then they do."""
        connection = self._connection
        if not isinstance(connection, FrameConnection) or not self._instance:
            return []
        method, encode = _CALLS[type(requests[0])]
        data = [(method, encode(replace(each, instance=self._instance))) for each in requests]
        self.calling = method, requests[0].round, requests[-1].round
        try:
            replies = await connection.exchange(data, self._deadline)
        except CallFailed as error:
            if error.code == "NOT_FOUND" or error.code in _BROKEN:
                return []
            raise self._raised(requests[error.place], error) from None
        except ValueError:  # the connection is closed
            return []
        finally:
            self.calling = None
        return list(zip(requests, replies, strict=True))

    # Instances

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt returns; repeat it where the instance is lost meanwhile, so often and no more."""
        for _ in range(LIMITS.plugin_restarts):
            try:
                return attempt()
            except InstanceLost as lost:
                self._instance = self._address = ""  # nor is the connection used again
                log.warning("the plugin is played again", reason=str(lost))
        try:
            return attempt()
        except InstanceLost as lost:
            times = LIMITS.plugin_restarts
            sentence = f"{lost}; it was played again {times} times for this call, and lost each time"
            raise PluginFailed.saying(sentence, lost.fault) from None

    def _new_instance(self) -> messages.DescribeReply:
        """Describe the plugin anew; where nobody answers any more, dial again for as long as there is patience."""
        began, pause, gone = time.monotonic(), _FIRST_PAUSE, False
        while True:
            try:
                described = self._describe_at(self._served.address())
            except ServerGone as error:
                if time.monotonic() - began >= self._served.patience:
                    raise PluginFailed(f"{error}; it was dialled again for {self._served.patience:g} seconds") from None
                if not gone:
                    log.warning("dialling the plugin's server again", reason=str(error), patience=self._served.patience)
                gone, self._address = True, ""
                self._closing.wait(pause)
                pause = min(2 * pause, LIMITS.backoff_seconds)
                continue
            if gone:
                log.info("the plugin's server is back", address=self._address)
            self._instance = described.instance
            return described

    def _describe_at(self, address: str) -> messages.DescribeReply:
        if address != self._address:
            if self._connection is not None:
                self._connection.close()
            self._address, self._connection = address, connect(address)
        return self._call(self._describe, messages.decode_described)

    def _introduce(self, described: messages.DescribeReply) -> None:
        self.constraints, self.history, self.rowwise = described.constraints, described.history, described.rowwise
        self.methods, self.version = described.methods, described.version
        self._introduced = True
        if 8 * self.history * self.game.agents * self.game.dimension > LIMITS.plugin_message_bytes - LIMITS.text_bytes:
            what = f"asks for {self.history} rounds of history, more than a message holds"
            raise self._failed(self._describe, what, "let it look back less far")

    def _replay(self) -> None:
        """Make a new instance and play it up to the newest round; Diverged where it is not the one it was."""
        new = self._new_instance()
        if (new.constraints, new.history, new.version) != (self.constraints, self.history, self.version):
            what = "gives another plugin than before"
            raise self._failed(self._describe, what, "start the adversary again to compare it with all it has answered")
        size = 8 * self.game.agents * self.game.dimension
        for round in range(1, self._played + 1):
            known = min(self.history, round - 1)
            self._decisions.seek((round - 1 - known) * size)
            past = np.frombuffer(self._decisions.read(known * size))
            needed = min(round, self._needed(self._played))  # this round at least, to be asked about
            request = messages.PlayRequest(self._instance, round, needed, past)
            self._call(request, bytes)
            for asked, answer in self._kept.of(round):
                self._compare(replace(asked, instance=self._instance), answer)

    def _compare(self, asked: messages.EvaluateRequest, answer: messages.EvaluateReply) -> None:
        """Ask a question again."""
        sizes = asked, self.game.dimension, self.constraints
        again = self._call(asked, messages.decode_evaluated, *sizes)
        before, now = ([each.f, each.g, each.loss_gradient, each.constraint_gradient] for each in (answer, again))
        agent = first_difference(asked.agents, before, now)
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

        def attempt() -> T:
            if not self._instance:
                self._replay()
            return self._call(replace(request, instance=self._instance), decode, *sizes)

        return self._persist(attempt)

    def _call(self, request: Request, decode: Callable[..., T], *sizes: object) -> T:
        method, encode = _CALLS[type(request)]
        assert self._connection is not None  # there is one since the first instance was made
        round = getattr(request, "round", 0)
        self.calling = method, round, round
        try:
            reply = self._connection.call(method, encode(request), self._deadline)
        except CallFailed as error:
            raise self._raised(request, error) from None
        except ValueError:
            raise self._failed(request, "came after the connection was closed", "begin a new game") from None
        finally:
            self.calling = None
        return self._decoded(request, reply, decode, *sizes)

    def _decoded(self, request: Request, reply: bytes, decode: Callable[..., T], *sizes: object) -> T:
        try:
            return decode(reply, *sizes)
        except Malformed as error:
            raise self._failed(request, f"has answered wrongly: {error}", REMEDY) from None

    def _raised(self, request: Request, error: CallFailed) -> Exception:
        said, code = cleaned(error.details) or error.code, error.code
        match code:
            case "INVALID_ARGUMENT":
                return CannotPlay(said)
            case "NOT_FOUND":
                return self._lost(request, "does not know the instance that was described and played")
            case "DEADLINE_EXCEEDED":
                what = f"has not answered within {self._deadline:g} seconds (adversary.seconds)"
                return self._failed(request, what, "make it faster, see where it hangs, or allow it more", Unanswered)
            case DebuggerNeeded.status if self._address.startswith(FRAMES):  # elsewhere, a method that is not there
                return DebuggerNeeded(f"the {KIND} {self.name}: {said}")
            case _ if error.fault is not None:
                return self._by(request, error.fault)
            case _ if code in _BROKEN and self._served.killed(self._address):
                return self._lost(request, f"lost its process ({said})")
            case "UNAVAILABLE" if self._address.startswith(FRAMES):
                what = f"ended with its process ({said})"
                remedy = "see its last output: it exits, crashes, or needs more than adversary.memory"
                return self._failed(request, what, remedy, Unanswered)
            case _ if (code in _GONE or said.startswith(_REMOVED)) and self._patient:
                gone = PluginFault(message=f"found no one at {self._address} ({said})", remedy="start its server again")
                return self._by(request, gone, ServerGone)
            case "UNAVAILABLE":
                what = f"found no one at {self._address}, or the connection broke ({said})"
                return self._failed(request, what, "start it there, or correct the address", Unanswered)
            case _:
                return self._failed(request, f"failed: {said}", REMEDY)

    def _lost(self, request: Request, what: str) -> PluginFailed:
        """Return the error for an instance that is gone, which is no fault of the plugin."""
        return self._by(request, PluginFault(message=what, remedy="start its process again"), InstanceLost)

    def _failed(
        self, request: Request, what: str, remedy: str, kind: type[PluginFailed] = PluginFailed
    ) -> PluginFailed:
        """Return the error for a call that has failed as a whole."""
        return self._by(request, PluginFault(message=what, remedy=remedy), kind)

    def _by(self, request: Request, fault: PluginFault, kind: type[PluginFailed] = PluginFailed) -> PluginFailed:
        """Return the error for a fault, which gets from the call what it does not say itself."""
        if not fault.method and isinstance(request, messages.EvaluateRequest):
            agents = request.agents
            fault = replace(fault, agents=tuple(agents[: LIMITS.fault_agents].tolist()), asked=len(agents))
        called = called_method(request) if self._address.startswith(FRAMES) else _CALLS[type(request)][0]
        told = replace(fault, method=fault.method or called, round=fault.round or getattr(request, "round", 0))
        return kind.by(f"{KIND} {self.name}", told)

    @property
    def _patient(self) -> bool:
        """Whether the plugin's server is dialled again where it is gone."""
        return self._introduced and self._served.patience > 0 and not self._closing.is_set()
