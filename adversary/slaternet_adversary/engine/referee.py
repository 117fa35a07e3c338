"""The referee: the adversary's engine. Grants each question once, chains the digest, orders scores, ends the game.

A question asks for exactly what the algorithm declares, for all agents of its host that play the round: so whatever is
granted can be replayed by a host that adopts them.

Questions that have arrived together are granted as one where all of them are new; else each by itself.

It never evaluates a function: `Play`, `Evaluate` and `Score` are effects whose results return as events, so the rules
do not depend on the plugin. A round's functions are fixed (`Played`) before its first question is evaluated.

In a new seating all hosts repeat their questions since the low-water mark; questions not evaluated yet pass to the
hosts that have their agents now. From a departure on, rounds are played by the remaining agents.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slaternet.attendance import Attendance
from slaternet.errors import Malformed, NotYours, OutsideSet, OverBudget, Refused, RoundNotOpen, Unready
from slaternet.limits import LIMITS, Limits
from slaternet.model import Agents, Answer, Array, Departure, LowWater, Question, StopAt
from slaternet.numerics.sets import FeasibleSet
from slaternet_adversary.engine import events
from slaternet_adversary.engine.batches import answers, joined, select_agents, single
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.host_costs import HostCostBook
from slaternet_adversary.engine.ledger import Ledger
from slaternet_adversary.scoring import Scored


class Referee:
    """The rules of the game and its state so far, without any function."""

    def __init__(
        self,
        agents: int,
        set: FeasibleSet,
        *,
        points: int,
        constraints: int,
        rounds: int | None,
        loss_gradient: bool = False,
        constraint_gradient: bool = False,
        memo: int = 0,
        history: int = 0,
        score_every: int = 1,
        commitments: Commitments | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._commitments = commitments or Commitments()
        self._agents = agents
        self._set = set
        self._points = points
        self._gradients = loss_gradient, constraint_gradient
        self._memo = memo
        self._history = history
        self._score_every = score_every
        self._ledger = Ledger(
            agents,
            set.dimension,
            points=points,
            constraints=constraints,
            window=limits.window,
            rounds=rounds,
            loss_gradient=loss_gradient,
            constraint_gradient=constraint_gradient,
            memo=memo,
        )
        self._hosts: dict[str, int] = {}
        self._seats: dict[str, Agents] = {}
        self._owner = np.full(agents, -1, dtype=np.intp)
        self._attendance = Attendance(agents)
        self._apart: dict[tuple[str, int], Question | None] = {}
        """By host and round: a question answered in pieces, because its agents changed hosts; None until the new host
        has asked it."""

        self._played = 0
        self._playing = 0
        # Functions of rounds ahead, and of rounds not scored yet, are in memory: each agent's loss and constraints have
        # at least a number for every coordinate.
        round_bytes = 8 * agents * set.dimension * (1 + constraints)
        self.burst = max(1, min(limits.burst, limits.burst_bytes // round_bytes))
        """How many rounds are prepared, or scored, at once."""
        self._window = limits.window
        self._cuts: deque[tuple[int, int | None]] = deque()
        """The round before each burst not recorded yet, and the game's last round as known then."""

        self._waiting: defaultdict[int, list[events.Asked]] = defaultdict(list)
        """By round whose functions are not fixed yet."""
        self._chain = [bytes(32)]  # d_t of the last recorded round and of those after it
        self._chained = 0
        self._recorded = 0
        self._past: list[Array] = []
        self._scores: dict[int, Scored] = {}
        self._accounts = HostCostBook()
        self._totals = (0.0, 0.0, 0.0, 0.0)
        self._summarised = False

    @property
    def recorded(self) -> int:
        """The last round that is complete."""
        return self._recorded

    @property
    def chained(self) -> tuple[int, bytes]:
        """The last round whose decisions are all known, and its digest d_t."""
        return self._chained, self._chain[-1]

    @property
    def totals(self) -> tuple[float, float, float, float]:
        """Cumulative loss and violation, then those of the baseline."""
        return self._totals

    def bought(self, agents: Agents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the last round that each of some agents has bought, and the last whose values it has."""
        return self._ledger.bought(agents)

    def restore(self, standing: events.RefereeSnapshot) -> None:
        """Continue a game after a round. Only before the first seating, and for a plugin without history."""
        self._chained = self._recorded = self._played = self._playing = standing.round
        self._chain = [standing.digest]
        self._totals = standing.totals
        self._ledger.restore(standing.round)
        self._ledger.rounds = standing.rounds

    def seat(self, hosts: Iterable[tuple[str, Agents]], departures: Iterable[Departure] = ()) -> list[events.Effect]:
        """Set the seats of each host, and the departures, which only grow; the first seating begins the game.

        Nothing is expected of hosts that are not named any more.
        """
        self._attendance = Attendance(self._agents, departures)
        self._ledger.depart(self._attendance)
        self._seats = seated = dict(hosts)
        self._owner.fill(-1)
        self._accounts.seat({name: self._attendance.last(seats) for name, seats in seated.items()})
        for name, seats in seated.items():
            self._owner[seats] = self._hosts.setdefault(name, len(self._hosts))
        self._reassign()
        return [*self._prepare(self._chained + 1), *self._chain_on(), *self._record()]

    def _reassign(self) -> None:
        """Pass questions not evaluated yet to the hosts that have their agents now; replies wait until those ask."""
        names, waiting = list(self._hosts), self._waiting
        self._waiting = defaultdict(list)
        self._apart.clear()
        for round, asked in [(round, each) for round, some in waiting.items() for each in some]:
            question, owners = asked.question, self._owner[asked.question.agents]
            plays = self._attendance.ends[question.agents] > round
            for owner in np.unique(owners[plays]):
                name = names[owner]
                piece = select_agents(question, plays & (owners == owner))
                self._waiting[round].append(events.Asked(name, piece, asked.at))
                self._apart[name, round] = None

    def handle(self, event: events.Event) -> list[events.Effect]:  # noqa: C901 - one case for each event
        """Process one event and return its effects, in order."""
        match event:
            case events.Asked():
                return self._grant(event, whole=True)
            case events.Questions(asked):
                return self._grant_all(asked)
            case events.Granted(asked):
                return self._grant(asked, whole=False)
            case events.Evaluated():
                return self._reply(event)
            case Scored(round):
                self._scores[round] = event
                return self._record()
            case events.Played(round):
                self._played = round
                if not (waiting := self._waiting.pop(round, [])):
                    return []
                batch = joined(waiting)
                return [events.Evaluate(each) for each in ([batch] if batch else map(single, waiting))]
            case events.Used():
                return self._book(event)
            case LowWater(mark):
                self._ledger.forget_before(min(mark, self._recorded + 1))
                return []
            case StopAt(last):
                if last == self._ledger.rounds:
                    return []  # a repetition
                # a game that ended at an earlier last round is played on
                self._ledger.rounds, self._summarised = last, False
                return [events.Enter(event), *self._prepare(self._chained + 1), *self._record()]

    def _book(self, used: events.Used) -> list[events.Effect]:
        """Record a host's usage, unless it has reported that round already."""
        if used.host not in self._accounts:
            raise NotYours("no agent is seated at this host any more")
        if used.usage.round > self._chained + 1 + self._window:
            raise RoundNotOpen("a host reports usage of rounds that it has played")
        return [events.Enter(used), *self._record()] if self._accounts.note_usage(used.host, used.usage.round) else []

    def _grant_all(self, asked: Sequence[events.Asked]) -> list[events.Effect]:
        """Grant what has arrived, as much as possible together; a wrong question is refused alone."""
        effects: list[events.Effect] = []
        by_round: defaultdict[int, list[events.Asked]] = defaultdict(list)
        for each in asked:
            by_round[each.question.round].append(each)
        for some in by_round.values():
            if len(some) > 1 and (batch := self._grant_together(some)) is not None:
                effects += self._proceed(batch)
                continue
            for each in some:
                try:
                    effects += self._grant(each, whole=True)
                except (Refused, Unready) as error:
                    effects.append(events.Refuse(each.host, error))
        return effects

    def _grant_together(self, asked: Sequence[events.Asked]) -> events.Batch | None:
        """Grant questions of one round as one; None, and nothing is granted, where one of them needs a closer look."""
        if (batch := joined(asked)) is None:
            return None
        owners = np.empty(len(batch.question.agents), np.intp)
        try:
            for each, rows in zip(batch.asked, batch.rows, strict=True):
                owners[rows] = self._hosts[each.host]
                self._check_whole(each.host, each.question)
            self._check(owners, batch.question)
            return batch if self._ledger.grant_new(batch.question) else None
        except (Refused, Unready):
            return None

    def _grant(self, asked: events.Asked, *, whole: bool) -> list[events.Effect]:
        host, question = asked.host, asked.question
        self._check(self._hosts[host], question)
        if whole:
            self._check_whole(host, question)
        new = self._ledger.grant(question)
        if new is not question:
            if new is None:
                return self._reply_again(host, question)
            self._apart[host, question.round] = question
            asked = replace(asked, question=new)
        return self._proceed(single(asked))

    def _proceed(self, granted: events.Batch) -> list[events.Effect]:
        """Order what follows from questions that are granted."""
        round = granted.question.round
        for each in granted.asked:
            self._accounts.ask(each.host, round, each.at)
        effects: list[events.Effect] = []
        if round <= self._played:
            effects.append(events.Evaluate(granted))
        else:
            self._waiting[round] += granted.asked
        effects += self._chain_on()
        if not self._history and round >= self._playing:
            effects += self._prepare(round + 1)
        return effects + self._record() if self._recorded < self._chained else effects

    def _check(self, owner: int | NDArray[np.intp], question: Question) -> None:
        """Apply those rules that need nothing but the question; `owner` is the host that asks, of each agent or all."""
        agents = question.agents  # ascending
        if agents[-1] >= self._agents or np.count_nonzero(self._owner[agents] != owner):
            raise NotYours("a host may ask only for the agents seated there")
        points, gradients = question.points.shape[1], (question.loss_gradient, question.constraint_gradient)
        memo = 0 if question.memo is None else question.memo.shape[1]
        if points != self._points or gradients != self._gradients or memo != self._memo:
            raise self._misfit(points, gradients, memo)
        decided = question.x_is_first_point or self._set.encloses(question.x)
        if not decided or not self._set.encloses(question.points):
            raise OutsideSet("decisions and points must lie in the feasible set")
        if question.anchor is not None and not self._set.encloses(question.anchor):
            raise OutsideSet("an anchor must lie in the feasible set")

    def _misfit(self, points: int, gradients: tuple[bool, bool], memo: int) -> Refused:
        """Return what is wrong with a question that does not ask for what the algorithm declares."""
        if points > self._points:
            return OverBudget(
                f"{points} points are asked about, and the game grants {self._points} per agent and round"
            )
        if memo > self._memo:
            return OverBudget(
                f"a memo of {memo} numbers comes with a question, and the algorithm declares {self._memo}"
            )
        if any(asked > granted for asked, granted in zip(gradients, self._gradients, strict=True)):
            kinds = [
                kind for kind, granted in zip(("the loss", "the constraints"), self._gradients, strict=True) if granted
            ]
            return OverBudget(f"the game grants gradients of {' and '.join(kinds) or 'nothing'}")
        return Malformed(
            "a question asks about all the points and for all the gradients that the algorithm declares, with its memo"
        )

    def _check_whole(self, host: str, question: Question) -> None:
        """Refuse a question for a part of the agents: a host that adopts them could not replay it."""
        due = self._attendance.of(self._seats[host], question.round)
        if len(self._attendance.of(question.agents, question.round)) < len(due):
            raise Malformed("a question speaks for all agents of its host that play the round")

    def _reply_again(self, host: str, question: Question) -> list[events.Effect]:
        values, key = self._ledger.values(question.round, question.agents), (host, question.round)
        if values is None:
            if key in self._apart:
                self._apart[key] = question
            return []
        self._apart.pop(key, None)
        return [events.Reply(host, Answer(question.round, question.agents, values))]

    def _reply(self, done: events.Evaluated) -> list[events.Effect]:
        round = done.batch.question.round
        self._ledger.fill(round, done.batch.question.agents, done.values)
        effects: list[events.Effect] = []
        for asked, values in answers(done.batch, done.values):
            key = asked.host, round
            if key not in self._apart:
                effects.append(events.Reply(asked.host, Answer(round, asked.question.agents, values)))
            elif (question := self._apart[key]) is not None:
                effects += self._reply_again(asked.host, question)
        return effects

    def _prepare(self, round: int) -> list[events.Effect]:
        """Commit to the functions up to a round and order them; without history, a burst of rounds ahead."""
        if self._ledger.rounds is not None:
            round = min(round, self._ledger.rounds)
        if round <= self._playing:
            return []
        first, last = self._playing + 1, round if self._history else round + self.burst - 1
        if self._ledger.rounds is not None:
            last = min(last, self._ledger.rounds)
        self._playing = last
        self._cuts.append((first - 1, self._ledger.rounds))
        past = np.array(self._past).reshape(-1, self._agents, self._set.dimension) if self._history else None
        known = self._chain[-1] if self._history else b""  # d_{t-1}: all decisions before the round are chained
        rounds = range(first, last + 1)
        commit = events.Commit(first, tuple(self._commitments.of(t, known) for t in rounds))
        return [commit, *(events.Play(t, past) for t in rounds)]

    def _chain_on(self) -> list[events.Effect]:
        """d_t = SHA-256(d_{t-1} || x_{0,t} .. x_{n-1,t}), for every round whose decisions are known.

        Agents that have left are skipped.
        """
        effects: list[events.Effect] = []
        while self._ledger.complete(self._chained + 1):
            self._chained += 1
            x, players = self._ledger.page(self._chained).x, self._attendance.players(self._chained)
            decided = x if len(players) == len(x) else x[players]
            self._chain.append(hashlib.sha256(self._chain[-1] + decided.tobytes()).digest())
            if self._chained % self._score_every == 0:
                effects.append(events.Score(self._chained, x, players))
            if self._history:
                self._past = [*self._past, x][-self._history :]
                effects += self._prepare(self._chained + 1)
        return effects

    def _record(self) -> list[events.Effect]:
        """Record, in order, rounds that are chained and scored; the last one once every host has reported its usage."""
        effects: list[events.Effect] = []
        while self._recorded < self._chained:
            round = self._recorded + 1
            scored = round in self._scores or round % self._score_every != 0
            told = round != self._ledger.rounds or self._accounts.complete(round)
            if not scored or not told or round > self._played:
                break
            self._recorded = round
            effects.append(self._row(round))
            self._ledger.settle(round)
        if self._recorded == self._ledger.rounds and not self._summarised and self._accounts.complete(self._recorded):
            self._summarised = True
            effects.append(events.Summarise(self._recorded, self._chain[0].hex()))
        return effects

    def _row(self, round: int) -> events.RecordRound:
        score = self._scores.pop(round, None)
        if score is not None:
            loss, violation, zero_loss, zero_violation = self._totals
            self._totals = (
                loss + score.loss,
                violation + score.violation,
                zero_loss + score.zero_loss,
                zero_violation + score.zero_violation,
            )
        del self._chain[0]
        x, lags = self._ledger.page(round).x, self._accounts.settle(round)
        players = len(self._attendance.players(round))
        return events.RecordRound(
            round, score, self._totals, players, lags, self._chain[0].hex()[:16], x, self._standing(round)
        )

    def _standing(self, round: int) -> events.RefereeSnapshot | None:
        while self._cuts and self._cuts[0][0] < round:
            self._cuts.popleft()
        if not self._cuts or self._cuts[0][0] > round:
            return None
        return events.RefereeSnapshot(round, self._cuts[0][1], self._chain[0], self._totals)
