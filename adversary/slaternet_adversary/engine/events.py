"""What the referee hears and what it orders: its events and its effects."""

from dataclasses import dataclass

from slaternet.model import Agents, Answer, Array, LowWater, Question, StopAt, Usage, Values
from slaternet_adversary.engine.host_costs import Lags
from slaternet_adversary.scoring import Scored


@dataclass(frozen=True, slots=True)
class Asked:
    """A host asks a question."""

    host: str
    question: Question
    at: float = 0.0  # seconds on whatever clock those have who hand events in; here there is none


@dataclass(frozen=True, slots=True)
class Used:
    """A host tells what it has spent."""

    host: str
    incarnation: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class Played:
    """The functions of a round are fixed."""

    round: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The values of a question."""

    host: str
    round: int
    agents: Agents
    values: Values


Event = Asked | Used | Played | Evaluated | Scored | LowWater | StopAt


@dataclass(frozen=True, slots=True)
class Enter:
    """Write an event in the journal, before anything comes of it."""

    event: Used | StopAt


@dataclass(frozen=True, slots=True)
class Commit:
    """Write down the commitments of consecutive rounds, from `round` on, before anything of them is revealed."""

    round: int
    commitments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Play:
    """Fix the functions of a round; `past` holds the last decisions (h, n, p) for an adaptive plugin."""

    round: int
    past: Array | None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Evaluate the functions of a round at the points of a question; at its anchor those whose gradients are wanted."""

    asked: Asked

    @property
    def host(self) -> str:
        """Who asks."""
        return self.asked.host

    @property
    def round(self) -> int:
        """The round that is asked about."""
        return self.asked.question.round


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a host's question."""

    host: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Score:
    """Score the decisions (n, p) of a round, which some agents or all of them play."""

    round: int
    x: Array
    agents: Agents


@dataclass(frozen=True, slots=True)
class RefereeSnapshot:
    """The state after a round, of a game in which everyone has bought that round and nobody a later one."""

    round: int
    rounds: int | None  # of the game, as far as was known when the functions of the next round were fixed
    digest: bytes
    totals: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class RecordRound:
    """A round is complete: one row of the metrics, and its decisions, NaN of agents that have left."""

    round: int
    score: Scored | None  # None: this round is not scored
    totals: tuple[float, float, float, float]  # cumulative loss, violation, and both of the baseline
    agents: int  # that have played
    lags: Lags
    digest: str
    x: Array
    standing: RefereeSnapshot | None = (
        None  # after rounds with which a burst of commitments ends: where a journal may be cut
    )


@dataclass(frozen=True, slots=True)
class Summarise:
    """Every round of the game is recorded."""

    rounds: int
    digest: str


Effect = Enter | Commit | Play | Evaluate | Reply | Score | RecordRound | Summarise
