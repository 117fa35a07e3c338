"""Public copies: what everybody may know of an agent's row, in a game with a gossip code.

z_t    rows     (k, w)   what the algorithm sends
zh_t   copies   (k, w)   its public copies; only they are mixed, kept and compared
C      Code              what a receiver makes of a coded row

    v_t    = z_t - zh_{t-1} where differences are coded, otherwise z_t
    zh_t   = zh_{t-1} + C(v_t), or C(v_t), where |z_t - zh_{t-1}| > trigger / t^power, otherwise zh_{t-1}
    zh_0   = the algorithm's first rows
    mixed  = P_{s X}(z_i + step sum_j [W_t]_ij (zh_j - zh_i)), for rows that are points of s X

The mean of all mixed rows is that of all rows whatever the code loses, because W_t is doubly stochastic (A. Koloskova,
S. Stich, M. Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication", 2019).
A code that remembers copies needs every message: a host that may mix an agent gets its message of every round.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from slaternet.errors import Malformed, PluginFailed
from slaternet.model import Agents, Array, CodedFrame, Frame, Symbols
from slaternet.numerics.portable import power
from slaternet.numerics.sets import FeasibleSet
from slaternet.spec import GossipSection
from slaternet_agent.algorithms.base import Algorithm
from slaternet_agent.codes.base import Code
from slaternet_agent.engine.row_check import row_scale_of
from slaternet_agent.engine.rows import RoundGossip


class PublicCopies:
    """The rule of a game by which rows become messages, and messages public copies."""

    def __init__(self, code: Code, section: GossipSection, algorithm: Algorithm, feasible: FeasibleSet) -> None:
        self.code = code
        self.remembers = section.remembers
        self.width = algorithm.width if self.remembers else 0
        """Of the copies that a host must remember."""
        self._difference, self._trigger, self._power = bool(section.difference), section.trigger, section.trigger_power
        self._step = 1.0 if section.step is None else section.step
        self._algorithm = algorithm
        self._set = feasible
        self._row_scale = row_scale_of(algorithm)

    def first(self, agents: Agents) -> Array:
        """Return zh_0 of some agents, as far as they are remembered."""
        if not self.remembers:
            return np.empty((len(agents), 0))
        first: Array = np.array(self._algorithm.outgoing(self._algorithm.start(agents), 1))
        return first

    def offer(self, rows: Array, before: Array, agents: Agents, t: int) -> tuple[CodedFrame, Array]:
        """Return the message of some agents in round t, and their public copies after it."""
        sent = None
        if self._trigger:
            away = rows - before
            sent = np.sqrt(np.add.reduce(away * away, axis=-1)) > self._trigger / power(t, self._power)
        vectors = rows - before if self._difference else rows
        some = agents if sent is None else agents[sent]
        symbols = self.code.encode(np.ascontiguousarray(vectors if sent is None else vectors[sent]), some, t)
        message = CodedFrame(t, agents, symbols, sent)
        try:
            return message, self.apply(message, before)
        except Malformed as refused:
            raise PluginFailed(
                f"the gossip code {self.code.layout.code} failed: decode of round {t} refuses what encode has made, as "
                f"if it were malformed: {refused}; correct its code"
            ) from refused

    def apply(self, message: CodedFrame, before: Array) -> Array:
        """Return the public copies that a message makes of those of the round before."""
        agents, sent = message.agents, message.sent
        if sent is None:
            decoded = self.code.decode(message.symbols, agents, message.round)
            return before + decoded if self._difference else decoded
        decoded = self.code.decode(message.symbols, agents[sent], message.round)
        copies = before.copy()
        copies[sent] = before[sent] + decoded if self._difference else decoded
        return copies

    def check(self, message: CodedFrame) -> None:
        """Refuse a message that says whose rows it holds where all are sent, or the other way round."""
        if (message.sent is not None) != (self._trigger > 0):
            raise Malformed("a frame says whose rows it holds in a game with a trigger, and only there")

    def mixed(self, matrix: csr_array, copies: Array, own: Array, own_copies: Array, t: int) -> Array:
        """Return the rows that the host's agents have mixed: its rows of W_t, all copies, its own rows and copies."""
        # Sums of sparse rows, in index order: exact under any batching. W_t's rows sum to 1 up to rounding.
        drift: Array = matrix @ copies
        drift -= (matrix @ np.ones(matrix.shape[1]))[:, None] * own_copies
        drift *= self._step
        drift += own
        scale = self._row_scale(t)
        return drift if scale is None else self._set.project(drift, scale=scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedGossip(RoundGossip):
    """The rows that an algorithm may read in one round of a game with a code; only what it reads is computed."""

    rule: PublicCopies
    own: tuple[Agents, Array]
    """The host's agents, and their rows as they are."""
    round: int

    @property
    def mixed(self) -> Array:
        """The agents' own rows, moved towards their neighbours' public copies."""
        agents, rows = self.own
        return self.rule.mixed(self._matrix, self._board.rows, rows, self._board.rows[agents], self.round)

    @property
    def rows(self) -> Array:
        """The public copies of the in-neighbours, (nnz, width), and an agent's own row as it is."""
        (agents, own), rows = self.own, self._board.rows.take(self.columns, axis=0)
        rows[self.columns == np.repeat(agents, np.diff(self.starts))] = own
        return rows

    @property
    def received(self) -> Array:
        """Refused: an algorithm that reads every row needs the rows themselves."""
        raise ValueError('received needs rows as they are; use mixed or rows, or set gossip.code = "exact"')


def part(message: CodedFrame, places: Agents) -> CodedFrame:
    """Return the message of some of its agents, by their places."""
    sent, symbols = message.sent, message.symbols
    if sent is None:
        kept, some = places, None
    else:
        some = sent[places]
        kept = (np.cumsum(sent) - 1)[places[some]]
    picked = Symbols(symbols.scales[kept], symbols.numbers[kept])
    return replace(message, agents=message.agents[places], symbols=picked, sent=some)


class PeerCopies:
    """The public copies of a peer's agents, as far as its present stream has brought them."""

    def __init__(self, rule: PublicCopies, seats: Agents) -> None:
        self._rule = rule
        self._seats = seats
        self._first: Array | None = None
        self.reset()

    def reset(self) -> None:
        """Begin with another stream."""
        self._round = 0
        self._agents = self._seats
        self._rows: Array | None = None  # None: those before round 1
        self._fresh = True

    def take(self, frame: Frame | CodedFrame) -> Frame:
        """Return the copies that a frame brings; Malformed where a round is missing before it."""
        fresh, self._fresh = self._fresh, False
        if isinstance(frame, Frame):
            if not (fresh and self._rule.remembers):
                raise Malformed("rows travel in the game's code, but for the copies with which a stream begins")
            self._round, self._agents, self._rows = frame.round, frame.agents, frame.rows
            return frame
        self._rule.check(frame)
        if not self._rule.remembers:
            return Frame(frame.round, frame.agents, self._rule.apply(frame, np.empty((len(frame.agents), 0))))
        if frame.round != self._round + 1:
            raise Malformed("in a game whose code remembers, the rounds of a stream follow one another")
        rows = self._rule.apply(frame, self._before(frame.agents))
        if not np.isfinite(rows).all():
            raise Malformed("public copies must be finite")
        self._round, self._agents, self._rows = frame.round, frame.agents, rows
        return Frame(frame.round, frame.agents, rows)

    def _before(self, agents: Agents) -> Array:
        """Return the copies of some agents in the round before."""
        if self._rows is None:
            if self._first is None:
                self._first = self._rule.first(self._seats)
            self._rows = self._first
        if agents is self._agents:
            return self._rows
        places = np.searchsorted(self._agents, agents)
        if (places == len(self._agents)).any() or (self._agents[places] != agents).any():
            raise Malformed("a stream brings the copies of an agent from its beginning on, or not at all")
        return self._rows[places]
