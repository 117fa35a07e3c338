"""An agent host as a state machine: events in, effects out; no wire, no clock, no chance.

A round of a host, t = 1, 2, 3, ...:

    offer     z_t goes to every host that mixes it (once the topology of round t is known)
    enter     all rows the host's agents mix are there: decide x_t and ask for values
    finish    the values are there: z_{t+1}, and on to offering it

Nothing else is waited for: no barrier, no permission. The topology window alone bounds how far a host runs ahead.

Rows follow from the rules, so two different rows of one agent and round are disputed: the coordinator rules which is
right. A row that was mixed stays as mixed, and a question that was asked stays as asked. In a game with a gossip code
all this is true of public copies (`public_copies`), which every host makes of the messages that it sends or receives.

Agents that depart in round E are forgotten after round E - 1; a host none of whose agents is left has finished then.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

import numpy as np

from slaternet import model
from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import Malformed, Mismatch, NotYours, RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet.numerics.sets import FeasibleSet
from slaternet_agent.algorithms import state_vector
from slaternet_agent.algorithms.base import Algorithm, Decision, Gossip
from slaternet_agent.engine import events
from slaternet_agent.engine.host_state import HostState, saved, taken
from slaternet_agent.engine.public_copies import CodedGossip, PeerCopies, PublicCopies
from slaternet_agent.engine.questions import check_answer, decided_before, question_of, same_size
from slaternet_agent.engine.round_plan import RoundPlan, round_plans
from slaternet_agent.engine.row_check import RowCheck
from slaternet_agent.engine.rows import Mixer, RowTable, sendable
from slaternet_agent.engine.sent_rows import SentRows


class Host:
    """The agents seated at one host, from round 1 or from their state after round `since`.

    A durable host emits checkpoints. Rows are compared with the feasible set, where it is given; with a gossip code,
    whose rule is `copies`, they need not lie there, and what is mixed is projected instead.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        seating: model.Seating,
        agents: int,
        rounds: int | None,
        limits: Limits = LIMITS,
        *,
        durable: bool = False,
        since: int = 0,
        state: HostState | None = None,
        set: FeasibleSet | None = None,
        copies: PublicCopies | None = None,
    ) -> None:
        self._algorithm = algorithm
        self._copies = copies
        self._check = RowCheck(algorithm, set if copies is None else None, limits.tolerance)
        self._attendance = Attendance(agents, seating.departures)
        self._seated = seating.seats  # with agents that leave, or have left
        self._agents = agents
        self._peers = [peer.name for peer in seating.peers]
        self._adversary = seating.adversary.name if seating.adversary else ""
        self._limits = limits
        self._until = self._attendance.last(seating.seats)  # the last round that any of its agents plays
        self._last = self._end(rounds)
        self._held = False
        self._owner = np.full(agents, -1, dtype=np.intp)
        for index, peer in enumerate(seating.peers):
            self._owner[peer.seats] = index
        self._spans = [(int(peer.seats[0]), int(peer.seats[-1]) + 1) for peer in seating.peers]
        self._scattered = sum(end - low for low, end in self._spans) > np.count_nonzero(self._owner >= 0)

        if max(since, seating.low_water) >= self._until:  # all have left: there is nothing to play or store
            since, state = self._until, None
        self._take_seats(min(since + 1, self._until))
        begun = self._begin() if state is None else self._restore(since, state)
        if durable:
            saved(begun)  # a state that cannot be stored is refused at once
        self._state = begun.algorithm
        self._durable = durable
        self._kept = since  # the newest checkpoint
        self.round = since + 1
        """The round being played, from 1."""
        self.known = since
        """The last round whose topology is known."""
        self.pending: model.Question | None = None
        """The question that is not answered yet."""
        self._offered = since
        self._decision: Decision | None = None
        # Kept from the low-water mark on, so that every frame a peer lacks can be sent again.
        self._plans: dict[int, RoundPlan] = {}
        self._boards = defaultdict[int, RowTable](partial(RowTable, agents, algorithm.width))
        self._sent = SentRows(copies, since, begun.copies, self._place)
        self._received = [] if copies is None else [PeerCopies(copies, peer.seats) for peer in seating.peers]
        self._contested = defaultdict[int, dict[int, model.Array]](dict)
        """By round whose topology is not known yet, and agent: a row that differs from the one that came first."""
        self._first_kept = since + 1 if since else 0  # of these three
        self.disputes: list[model.Dispute] = []
        """Those without a ruling, all of rounds whose topology is known: the coordinator hears no others."""
        self._disputed = 0  # how often

    def _end(self, rounds: int | None) -> int | None:
        """Return the last round of this host in a game of so many rounds: its agents may leave earlier."""
        if self._until < FOREVER - 1:
            return self._until if rounds is None else min(rounds, self._until)
        return rounds

    def _take_seats(self, round: int) -> None:
        """Play for the agents that play in a round."""
        self._seats = self._attendance.of(self._seated, round)
        self._parting = self._attendance.until(round)  # the last round before the seats change
        self._mixer = Mixer(len(self._seats), self._agents)
        self._place = np.zeros(self._agents, dtype=np.intp)
        self._place[self._seats] = np.arange(len(self._seats))
        low, end = int(self._seats[0]), int(self._seats[-1]) + 1
        self._own = slice(low, end) if end - low == len(self._seats) else self._seats  # mostly they sit side by side

    def _begin(self) -> HostState:
        """Return the state of the agents here before round 1."""
        copies = np.empty((len(self._seats), 0)) if self._copies is None else self._copies.first(self._seats)
        return HostState(self._algorithm.start(self._seats), copies)

    def _restore(self, since: int, state: HostState) -> HostState:
        """Return the state of the agents here, from one that may hold more agents."""
        lacking = np.setdiff1d(self._seats, state.agents)
        if lacking.size:
            raise Mismatch(
                f"the checkpoint of round {since} holds nothing of agent {lacking[0]}, which plays on here; put "
                "back what was kept with these seats"
            )
        return taken(self._algorithm, state, self._seats)

    @property
    def seats(self) -> int:
        """The number of agents seated at the host."""
        return len(self._seats)

    @property
    def finished(self) -> bool:
        """Whether the last round has been played."""
        return self._last is not None and self.round > self._last

    @property
    def wanted(self) -> int:
        """The first round in which rows of peers may be missing."""
        return self.round if self.pending is None else self.round + 1

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The names of the processes that must act before the round can be finished; none after the last round."""
        if self.finished:
            return ()
        if self.pending is not None:
            return (self._adversary,)
        plan = self._plans.get(self.round)
        if plan is None or self._held:
            return (model.COORDINATOR,)
        absent = plan.needed[~self._boards[self.round].known[plan.needed]]
        return tuple(self._peers[index] for index in np.unique(self._owner[absent]))

    def handle(self, event: events.Event) -> list[events.Effect]:
        """Apply an event and return its effects, in order."""
        match event:
            case events.FrameArrived(peer, frame):
                return self._take_frame(peer, frame)
            case model.Answer():
                return self._finish_round(event)
            case model.Topology():
                return self._take_topology(event)
            case events.PeerWants(peer, first):
                return self._offer_again(peer, first)
            case model.Hold():
                self._held = True
                return [model.Holding(self.round if self.pending is not None else self.round - 1)]
            case model.StopAt(last):
                self._held = False
                self._last = self._end(last)
                return [*self._checkpoint(), events.Finish()] if self.finished else self._go_on()
            case events.AskedBefore(question):
                return self._ask_as_before(question)
            case model.RowRequest(round, agents):
                return [model.DisputedRows(round, agents, self._rows_sent(round, agents))]
            case model.DisputedRows():
                return self._apply_ruling(event)

    def _take_topology(self, topology: model.Topology) -> list[events.Effect]:
        if topology.round <= self._until:
            seats = self._attendance.of(self._seated, topology.round)
            peers, remembers = len(self._peers), self._copies is not None and self._copies.remembers
            for offset, plan in enumerate(round_plans(topology, seats, self._agents, peers, remembers=remembers)):
                self._plans.setdefault(topology.round + offset, plan)
        before, self.known = self.known, max(self.known, topology.round + topology.rounds - 1)
        self._forget(topology.low_water)
        contested = [round for round in sorted(self._contested) if before < round <= self.known]
        effects = [each for round in contested for each in self._dispute_each(round, self._contested.pop(round))]
        return effects + self._go_on()

    def _forget(self, mark: int) -> None:
        for old in range(self._first_kept - 1, min(mark, self.round)):
            self._plans.pop(old, None)
            self._boards.pop(old, None)
            self._sent.forget(old)
        if self.disputes:
            self.disputes = [each for each in self.disputes if each.round >= min(mark, self.round)]
        self._first_kept = max(self._first_kept, min(mark, self.round))

    def _take_frame(self, peer: int, frame: model.Frame | model.CodedFrame) -> list[events.Effect]:
        round, agents = frame.round, frame.agents
        low, end = self._spans[peer]
        if agents[0] < low or agents[-1] >= end or (self._scattered and (self._owner[agents] != peer).any()):
            raise NotYours("a frame may hold only rows of agents seated at its sender")
        # Topology is never published beyond M + 2C + L, and no host is behind its checkpoint of M: a restarted host may
        # find the others so far ahead.
        if round >= self.round + self._limits.window + 2 * self._limits.checkpoint_every:
            raise RoundNotOpen("a frame may not run ahead of the topology window")
        if self._received:
            frame = self._received[peer].take(frame)
        elif isinstance(frame, model.CodedFrame):
            raise Malformed("a game without a code has no coded frames")
        if round < max(self._first_kept, 1):
            return []
        effects: list[events.Effect] = []
        if (differs := self._boards[round].put(agents, frame.rows)) is not None:
            if round <= self.known:
                effects = self._dispute(peer, round, agents[differs], frame.rows[differs])
            else:
                for agent, row in zip(agents[differs].tolist(), frame.rows[differs], strict=True):
                    self._contested[round].setdefault(agent, row)
        return effects + self._go_on() if round == self.round else effects

    def _dispute_each(self, round: int, contested: Mapping[int, model.Array]) -> list[events.Effect]:
        """Dispute rows of several peers, by agent."""
        agents = np.array(sorted(contested), np.intp)
        rows, effects = np.array([contested[agent] for agent in agents.tolist()]), list[events.Effect]()
        for peer in np.unique(self._owner[agents]).tolist():
            own = self._owner[agents] == peer
            effects += self._dispute(peer, round, agents[own], rows[own])
        return effects

    def _mixed(self, round: int) -> bool:
        """Return whether the rows of a round have been mixed."""
        return round < self.round or (round == self.round and self.pending is not None)

    def _dispute(self, peer: int, round: int, agents: model.Agents, rows: model.Array) -> list[events.Effect]:
        """Dispute rows that are mixed here, as many as travel in one message.

        A peer whose rows differ again and again is ignored.
        """
        mixed_here = np.isin(agents, self._plans[round].needed) if round in self._plans else np.zeros(len(agents), bool)
        agents, rows = self._boards[round].undisputed(agents[mixed_here], rows[mixed_here])
        if self._disputed >= self._limits.complaints or not agents.size:
            return []
        self._disputed += 1
        most = max(1, self._limits.part_bytes // rows[0].nbytes)
        agents, rows = agents[:most], rows[:most]
        self._boards[round].dispute(agents, mixed=self._mixed(round))
        dispute = model.Dispute(round, self._peers[peer], agents, sendable(rows, self._limits))
        self.disputes.append(dispute)
        return [dispute]

    def _apply_ruling(self, ruling: model.DisputedRows) -> list[events.Effect]:
        """Use the rows that the coordinator has ruled for; of those that were mixed report that others were."""
        about = [each for each in self.disputes if each.round == ruling.round]
        about = [each for each in about if np.array_equal(each.agents, ruling.agents)]
        if not about:
            return []  # a repetition, or a round that no host needs any more
        self.disputes = [each for each in self.disputes if each is not about[0]]
        if (width := ruling.rows.shape[1]) not in (0, self._algorithm.width):
            raise Malformed("a ruling must have rows of the algorithm's width, or none")
        mixed, rows = self._mixed(ruling.round), ruling.rows if width else None
        if rows is not None and self._check.outside(ruling.round, rows) is not None:
            self._check.give_up()  # the algorithm's rows are not what it declares
        if self._boards[ruling.round].rule(ruling.agents, rows, mixed=mixed):
            return [model.Disturbed(ruling.round, self._attendance.of(self._seated, ruling.round))]
        return [] if mixed or ruling.round != self.round else self._go_on()

    def _rows_sent(self, round: int, agents: model.Agents) -> model.Array:
        """Return rows as this host has sent them; without numbers where it cannot tell, or they are too many."""
        if not np.isin(agents, self._attendance.of(self._seated, round)).all():
            return np.empty((len(agents), 0))
        return sendable(self._sent.rows(round, agents), self._limits)

    def _ask_as_before(self, asked: model.Question) -> list[events.Effect]:
        """Ask what was asked before: rows that were mixed then, or the host that asked, did not follow the rules."""
        if self._decision is None or self.pending is None or asked.round != self.round:
            return []
        if not np.isin(asked.agents, self._seats).all() or not same_size(asked, self.pending):
            raise Malformed("what was asked before must be about the agents seated here, and as many numbers")
        self._decision = decided_before(self._decision, asked, self._place[asked.agents])
        self.pending = question_of(self._decision, self._algorithm, self.round, self._seats)
        return [model.Disturbed(self.round, asked.agents), events.Ask(self.pending)]

    def _go_on(self) -> list[events.Effect]:
        plan = self._plans.get(self.round)
        if plan is None or (self._last is not None and self.round > self._last):
            return []
        effects = self._offer(plan) if self._offered < self.round else []
        board, needed = self._boards[self.round], plan.needed
        if self.pending is not None or self._held or board.lacks(needed, len(self._seats)):
            return effects
        rows = board.rows[needed]
        if (outside := self._check.outside(self.round, rows)) is not None:
            board.forget(needed[outside])  # they cannot be right, and are missing until others come or a ruling
            wrong = dict(zip(needed[outside].tolist(), rows[outside], strict=True))
            return effects + self._dispute_each(self.round, wrong)
        self._decision = decision = self._algorithm.decide(self._state, self._gossip(plan, board), self.round)
        self.pending = question_of(decision, self._algorithm, self.round, self._seats)
        effects.append(events.Ask(self.pending))
        return effects

    def _offer(self, plan: RoundPlan) -> list[events.Effect]:
        rows = self._algorithm.outgoing(self._state, self.round)
        if rows.shape != (len(self._seats), self._algorithm.width):
            raise ValueError("an algorithm needs rows (k, width) to gossip for the k agents of the host")
        self._rows = rows
        self._boards[self.round].add(self._own, self._sent.add(self.round, rows, self._seats, self._place))
        self._offered = self.round
        # peers that are owed the same rows get the same frame, so that it is encoded once
        frames, effects = dict[bytes, model.Frame | model.CodedFrame](), list[events.Effect]()
        for peer, agents in plan.debts:
            if (frame := frames.get(whose := agents.tobytes())) is None:
                frame = frames[whose] = self._sent.frame(self.round, agents)
            effects.append(events.Send(peer, frame))
        return effects

    def _offer_again(self, peer: int, first: int) -> list[events.Effect]:
        """Send a peer what it lacks, on a stream that has just been opened."""
        if self._received:
            self._received[peer].reset()
        begin = max(min(first - 1, self._offered), self._first_kept - 1, 0)  # the last round that is not sent again
        effects: list[events.Effect] = []
        if self._copies is not None and self._copies.remembers:
            begin = self._sent.begin(begin)
            agents = self._attendance.of(self._seated, begin + 1)
            if begin and agents.size:  # before round 1 everybody knows them
                effects.append(events.Send(peer, model.Frame(begin, agents, self._sent.rows(begin, agents))))
        for t in range(begin + 1, self._offered + 1):
            owed = (agents for debtor, agents in self._plans[t].debts if debtor == peer)
            effects += (events.Send(peer, self._sent.frame(t, agents)) for agents in owed)
        return effects

    def _gossip(self, plan: RoundPlan, board: RowTable) -> Gossip:
        """Return what the algorithm may read in this round."""
        if self._copies is None:
            return self._mixer.gossip(plan, board)
        own, matrix = (self._seats, self._rows), self._mixer.matrix(plan)
        return CodedGossip(matrix, board, rule=self._copies, own=own, round=self.round)

    def _finish_round(self, answer: model.Answer) -> list[events.Effect]:
        if answer.round < self.round:
            return []  # an answer to a question that was asked again
        if self._decision is None or self.pending is None or answer.round != self.round:
            raise RoundNotOpen("an answer came to a question that was not asked")
        check_answer(answer, self.pending)
        self._state = self._algorithm.update(self._state, self._decision, answer.values, self.round)
        self.pending = self._decision = None
        if (board := self._boards[self.round]).rows.nbytes > self._limits.rows_bytes:
            board.settle()
        if self.round == self._parting and self.round < self._until:
            self._take_seats(self.round + 1)
            self._state = state_vector.taken(self._algorithm, self._state, self._seats)
        done, self.round = self.round, self.round + 1
        # frames first: peers wait for them; Finish last: it is reported when the checkpoint is durable
        if self._last is not None and done >= self._last:
            return [*self._checkpoint(), events.Finish()]
        effects = self._go_on()
        if done % self._limits.checkpoint_every == 0:
            effects += self._checkpoint()
        if done % self._limits.report_every == 0:
            effects.append(events.ReportRound(done))
        return effects

    def _checkpoint(self) -> list[events.Effect]:
        """Return the checkpoint of the last round finished, unless there is one."""
        last = self.round - 1
        if not self._durable or last <= self._kept:
            return []
        self._kept = last
        # copies of this round, while the next one may have been offered
        state = HostState(self._state, self._sent.remembered(last, self._seats))
        return [events.Checkpoint(last, saved(state))]
