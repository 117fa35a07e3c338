"""How a game calls its plugin: in this process, or elsewhere while the event loop goes on."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Question, Values
from slaternet_adversary.api import History
from slaternet_adversary.engine.events import Play, Score
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.remote import Remote
from slaternet_adversary.scoring import Scored, scored_points

T = TypeVar("T")


class PluginCalls:
    """Calls of a plugin in this process, one at a time: nothing waits."""

    burst = 1
    """How many rounds are played or scored in one call."""

    def __init__(self, rounds: OpenRounds) -> None:
        self._rounds = rounds

    async def play(self, effects: Sequence[Play]) -> None:
        """Have the functions of rounds fixed."""
        for effect in effects:
            self._rounds.play(effect)

    async def evaluate(self, question: Question) -> Values:
        """Return the values that a question asks for."""
        return self._rounds.evaluate(question)

    async def score(self, effects: Sequence[Score]) -> list[Scored]:
        """Do a piece of scoring rounds, the same rounds until they are scored; return those scores then."""
        scored = self._rounds.score(effects[0])
        return [] if scored is None else [scored]

    async def compare(self, question: Question, before: Values, *, changed: bool = False) -> None:
        """Ask a question again; Diverged where an answer is not, to the bit, what it was before.

        `changed`: the plugin's code is another now.
        """
        self._rounds.compare(question, before, changed=changed)

    async def measure(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation of some agents at points (N, p), by the functions that are scored, (N,) each."""
        return self._rounds.measure(round, agents, points)

    async def renew(self) -> None:
        """Have another process of the plugin serve the next call, where it has one."""
        if isinstance(self._rounds.plugin, Remote):
            self._rounds.plugin.renew()

    def forget(self, round: int) -> None:
        """Drop a round that is recorded."""
        self._rounds.forget(round)


class ApartCalls(PluginCalls):
    """Calls of a plugin in another process, while heartbeats go on.

    For our own worker the event loop waits. What cannot be had so, because the plugin is served by gRPC, its process
    was killed, or an answer takes several calls, is left to a thread, which blocks.
    """

    burst = LIMITS.burst

    def __init__(self, remote: Remote, thread: Executor) -> None:
        super().__init__(OpenRounds(remote))
        self._remote = remote
        self._thread = thread

    async def play(self, effects: Sequence[Play]) -> None:
        """Have the functions of rounds fixed, by one message."""
        past = [None if each.past is None else History(each.past) for each in effects]
        rounds = [(each.round, history) for each, history in zip(effects, past, strict=True)]
        there = await self._remote.play_ahead(rounds)
        await self._do(there, lambda: [self._rounds.play(effect) for effect in effects])

    async def evaluate(self, question: Question) -> Values:
        """Return the values that a question asks for, by one message where it asks for no gradients."""
        if not (question.loss_gradient or question.constraint_gradient) and question.points.shape[1]:
            answer = await self._remote.evaluate_now(question.round, question.agents, question.points)
            if answer is not None:
                return self._rounds.checked(question, answer.f, answer.g)
        return await self._do(False, lambda: self._rounds.evaluate(question))

    async def score(self, effects: Sequence[Score]) -> list[Scored]:
        """Score rounds by one message, or do a piece of scoring the first."""
        centre = self._remote.game.set.centre
        wanted = [(each.round, each.agents, scored_points(each.decisions, centre)) for each in effects]
        if await self._remote.score_ahead(wanted):
            return [self._scored(effect) for effect in effects]
        scored = await self._do(False, lambda: self._rounds.score(effects[0]))
        return [] if scored is None else [scored]

    async def compare(self, question: Question, before: Values, *, changed: bool = False) -> None:
        """Ask a question again."""
        await self._do(False, lambda: self._rounds.compare(question, before, changed=changed))

    async def measure(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation of some agents at points."""
        return await self._do(False, lambda: self._rounds.measure(round, agents, points))

    async def renew(self) -> None:
        """Have another process of the plugin serve the next call."""
        await self._do(False, self._remote.renew)

    def _scored(self, effect: Score) -> Scored:
        while (scored := self._rounds.score(effect)) is None:
            pass
        return scored

    async def _do(self, there: bool, work: Callable[[], T]) -> T:
        """Do what needs no answer any more; leave it to the thread where one is missing."""
        return work() if there else await asyncio.get_running_loop().run_in_executor(self._thread, work)
