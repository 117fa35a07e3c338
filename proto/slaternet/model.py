"""The messages of the game as plain records: what codec, engines and shells pass around.

Agents are 0..n-1, rounds are 1, 2, 3, ... Arrays are float64 and C-contiguous, agent ids are `numpy.intp`.
k is the number of agents a message speaks for, p the dimension, s the points per agent, m the constraints per agent.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slaternet.status import DISTURBED as DISTURBED
from slaternet.status import HostStatus as HostStatus
from slaternet.status import Incident as Incident
from slaternet.status import IncidentRecord as IncidentRecord
from slaternet.status import Refusal as Refusal
from slaternet.status import Refusals as Refusals
from slaternet.status import Role as Role
from slaternet.status import Status as Status
from slaternet.symbols import Layout as Layout
from slaternet.symbols import Symbols as Symbols

Array = NDArray[np.float64]
Agents = NDArray[np.intp]

PROTOCOL = 4
"""Version of the wire protocol; processes of different versions refuse each other."""
COORDINATOR = "coordinator"
"""The coordinator's name."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of every message."""

    run: str
    epoch: int
    round: int
    sender: str


# Joining and opening streams


@dataclass(frozen=True, slots=True)
class Join:
    """A process asks to join the game; its name is the head's sender."""

    role: Role
    address: str
    seats: int  # 0: an even share
    protocol: int
    fingerprint: str
    agents: Agents = field(default_factory=lambda: np.empty(0, np.intp))  # those wanted; none: any
    spec_tag: str = ""  # of the spec played before; empty: without a past
    durable: bool = False  # it can be restarted
    ticket: bytes = b""  # of a challenge; empty: there was none


@dataclass(frozen=True, slots=True)
class Challenge:
    """The answer to Join under a taken name: repeat it with this ticket, which a dead process cannot do."""

    ticket: bytes


@dataclass(frozen=True, slots=True)
class Welcome:
    """The coordinator's answer; the head carries the run's id."""

    incarnation: int
    ticket: bytes
    spec: str  # TOML: to the adversary all of it, to hosts the public part
    spec_tag: str  # by which the receiver knows all of it again
    low_water: int = 0
    description: "Description | None" = None  # to the adversary of a game that has begun: of its plugin so far


@dataclass(frozen=True, slots=True)
class Opening:
    """First message on every stream."""

    incarnation: int
    ticket: bytes
    round: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Shows that the sender is running."""


# Control


@dataclass(frozen=True, slots=True)
class Description:
    """What others must know of the adversary's plugin."""

    constraints: int
    loss_gradient: bool = False  # granted by the game, and the plugin has it
    constraint_gradient: bool = False  # likewise
    history: int = 0
    rowwise: bool = True
    code: str = ""  # SHA-256 of the plugin's code; hosts do not get it

    def replaces(self, other: "Description") -> bool:
        """Whether a game that was begun with the other plugin can go on with this one: only its code may differ."""
        return replace(self, code=other.code, rowwise=other.rowwise) == other


@dataclass(frozen=True, slots=True)
class Peer:
    """A process, and the tickets between it and the receiver."""

    name: str
    address: str
    incarnation: int
    seats: Agents
    present: bytes = b""
    accept: bytes = b""


@dataclass(frozen=True, slots=True)
class Departure:
    """Agents that leave the game before its end."""

    round: int  # the first that they do not play
    agents: Agents


@dataclass(frozen=True, slots=True)
class Seating:
    """The agents of each host, with the hosts' addresses and tickets."""

    seats: Agents
    peers: tuple[Peer, ...]
    adversary: Peer | None = None
    description: Description | None = None
    departures: tuple[Departure, ...] = ()  # in ascending rounds
    low_water: int = 0  # M: hosts go on after this round
    recall: bool = False  # a host may rebuild missing states from the adversary's journal


@dataclass(frozen=True, slots=True)
class Standby:
    """Every seat is taken; stay, in case one becomes free."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A host's rows of W_t for consecutive rounds, and the rows of z it owes to others.

    Row r of the i-th round lies at columns[starts[i k + r] : starts[i k + r + 1]], weights alike. No row is empty, its
    columns ascend, and its weights lie in (0, 1]: the codec refuses others. In a game whose code remembers, debts hold
    for every round, and are stated for the first.
    """

    round: int  # the first
    rounds: int
    starts: Agents  # (rounds k + 1,)
    columns: Agents
    weights: Array
    debts: Agents  # (N, 3): round offset, index into Seating.peers, agent; sorted
    low_water: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A host has finished a round; the adversary has scored it (the head's round)."""

    round: int
    cumulative_loss: float = 0.0
    cumulative_violation: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The sender cannot play a round before others have done their part."""

    round: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Enter no further round until StopAt."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Answer to Hold: the last round entered."""

    round: int


@dataclass(frozen=True, slots=True)
class StopAt:
    """The last round of the game."""

    round: int


@dataclass(frozen=True, slots=True)
class LowWater:
    """M: no process asks for anything older."""

    round: int


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The host's checkpoint of this round is durable."""

    round: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Host: the last round is played. Adversary: the summary is written."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The sender cannot go on."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accusation:
    """A peer has refused the sender's stream with an error that no honest host sends."""

    host: str
    what: str


@dataclass(frozen=True, slots=True)
class Dispute:
    """The sender has received rows that are not those it has already, or that lie outside of their set."""

    round: int
    host: str  # who sent them
    agents: Agents
    rows: Array  # (k, width); width 0: they do not fit into a message


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Asks a host for rows that others dispute."""

    round: int
    agents: Agents
    ticket: bytes = b""  # opens the journal, from which to rebuild them; empty: state those that were sent


@dataclass(frozen=True, slots=True)
class DisputedRows:
    """Rows of one round: in answer to RowRequest, or the coordinator's ruling."""

    round: int
    agents: Agents
    rows: Array  # (k, width); width 0: not known, and in a ruling: keep what came first


@dataclass(frozen=True, slots=True)
class Disturbed:
    """The sender had asked a question that it would not ask now; the game goes on as it was asked."""

    round: int
    agents: Agents


@dataclass(frozen=True, slots=True)
class GameOver:
    """The game is over; `failure` is why it failed, empty where it ended well."""

    failure: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Answer to GameOver; the sender leaves."""


# Gossip


@dataclass(frozen=True, slots=True)
class ResendFrom:
    """The sender lacks every frame from this round on."""

    round: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of one round that one host owes another; in a game with a code, public copies as they are."""

    round: int
    agents: Agents  # (k,)
    rows: Array  # (k, width)


@dataclass(frozen=True, slots=True)
class CodedFrame:
    """The same in a gossip code: what the receiver makes public copies of."""

    round: int
    agents: Agents  # (k,)
    symbols: Symbols  # of the rows that are sent
    sent: NDArray[np.bool_] | None = None  # (k,): whose rows are; None: all


# Reveal


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for values, one purchase for every agent named; it has an anchor if and only if it asks for a gradient."""

    round: int
    agents: Agents  # (k,)
    x: Array  # (k, p)
    points: Array  # (k, s, p)
    anchor: Array | None = None  # (k, p): where gradients are taken
    loss_gradient: bool = False  # with the loss's value at the anchor
    constraint_gradient: bool = False  # with the constraints' values at the anchor
    x_is_first_point: bool = False  # then x is points[:, 0], and not sent or journalled separately
    memo: Array | None = None  # (k, w): what `decide` computed and `update` needs, where the algorithm declares it


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one incarnation of a host, up to the end of a round."""

    round: int
    frames: int = 0
    bytes_sent: int = 0  # on all streams, with gRPC's prefixes
    bytes_received: int = 0
    waited: float = 0.0  # seconds in which something was missing
    rows: int = 0  # in those frames
    gossip_bytes: int = 0  # of the messages that carried them, with the prefixes


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """Asks for past questions and answers of agents."""

    round: int  # the first wanted
    last: int
    agents: Agents
    ticket: bytes = b""  # of a RowRequest; empty: they are seated here


@dataclass(frozen=True, slots=True)
class ValueAndGradient:
    """A function's first-order information at the anchor."""

    value: Array  # (k,) of a loss, (k, m) of constraints
    gradient: Array  # (k, p) of a loss, (k, m, p) of constraints


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a question asks for: one record from the plugin to the algorithm."""

    f: Array  # (k, s)
    g: Array  # (k, s, m)
    loss: ValueAndGradient | None = None  # f at the anchor, where the question asks for its gradient
    constraint: ValueAndGradient | None = None  # g likewise


@dataclass(frozen=True, slots=True)
class Answer:
    """The values bought with a question."""

    round: int
    agents: Agents  # (k,)
    values: Values


_Report = Progress | Checkpointed | Waiting | Holding | Finished | Failed | Refusals | Accusation
ControlUp = Opening | Heartbeat | Description | _Report | Dispute | DisputedRows | Disturbed | Acknowledged
_Order = Hold | StopAt | LowWater | GameOver
ControlDown = Heartbeat | Seating | Standby | Topology | _Order | IncidentRecord | RowRequest | DisputedRows
Gossip = Opening | ResendFrom | Heartbeat | Frame | CodedFrame
RevealUp = Opening | Heartbeat | Question | Usage | HistoryRequest
RevealDown = Heartbeat | Question | Answer
