"""What the referee is given and what it orders: its events and its effects."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import SlaternetError
from slaternet.model import Agents, Answer, Array, LowWater, Question, StopAt, Usage, Values
from slaternet_adversary.engine.host_costs import Lags
from slaternet_adversary.scoring import Scored


@dataclass(frozen=True, slots=True)
class Asked:
    """A host asks a question."""

    host: str
    question: Question
    at: float = 0.0  # seconds by the caller's clock; the referee has none


@dataclass(frozen=True, slots=True)
class Questions:
    """All questions that have arrived, of any hosts and rounds; a wrong one is refused alone."""

    asked: tuple[Asked, ...]


Rows = slice | NDArray[np.bool_] | NDArray[np.intp]
"""Chooses rows of an array."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions of one round that are answered together, as one."""

    asked: tuple[Asked, ...]
    question: Question  # all of them, agents in index order
    rows: tuple[Rows, ...]  # of each question asked, in the joint one


@dataclass(frozen=True, slots=True)
class Granted:
    """A purchase of the journal: what was granted of a question, maybe a part, because its agents changed hosts."""

    asked: Asked


@dataclass(frozen=True, slots=True)
class Used:
    """A host reports its usage."""

    host: str
    incarnation: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class Played:
    """The functions of a round are fixed."""

    round: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The values of a batch."""

    batch: Batch
    values: Values


Event = Asked | Questions | Granted | Used | Played | Evaluated | Scored | LowWater | StopAt


@dataclass(frozen=True, slots=True)
class Enter:
    """Record an event in the journal, before any effect that follows from it."""

    event: Used | StopAt


@dataclass(frozen=True, slots=True)
class Commit:
    """Record the commitments of consecutive rounds, from `round` on, before any value of them is revealed."""

    round: int
    commitments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Play:
    """Fix the functions of a round; `past` holds the last decisions (h, n, p) for an adaptive plugin."""

    round: int
    past: Array | None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Evaluate a round's functions at the points of a batch, and gradients at its anchor where it asks for them."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a host's question."""

    host: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Refuse:
    """End a host's stream: its question breaks the rules, or comes too early."""

    host: str
    error: SlaternetError


@dataclass(frozen=True, slots=True)
class Score:
    """Score the decisions (n, p) that `agents` played in a round."""

    round: int
    x: Array
    agents: Agents

    @property
    def decisions(self) -> Array:
        """Those of `agents`, (k, p)."""
        return self.x if len(self.agents) == len(self.x) else self.x[self.agents]


@dataclass(frozen=True, slots=True)
class RefereeSnapshot:
    """The referee's state after a round that all agents have bought, when none has bought a later one."""

    round: int
    rounds: int | None  # of the game, as known when the next round's functions were fixed
    digest: bytes
    totals: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class RecordRound:
    """A round is complete: one row of the metrics, and its decisions, NaN for agents that have left."""

    round: int
    score: Scored | None  # None: this round is not scored
    totals: tuple[float, float, float, float]  # cumulative loss, violation, and both of the baseline
    agents: int  # how many have played
    lags: Lags
    digest: str
    x: Array
    standing: RefereeSnapshot | None = None  # only where a burst of commitments ends: the journal may be cut there


@dataclass(frozen=True, slots=True)
class Summarise:
    """Every round of the game is recorded."""

    rounds: int
    digest: str


Effect = Enter | Commit | Play | Evaluate | Reply | Refuse | Score | RecordRound | Summarise
