"""The events and effects of a host's engine."""

from dataclasses import dataclass

from slaternet.model import (
    Answer,
    CodedFrame,
    Dispute,
    DisputedRows,
    Disturbed,
    Frame,
    Hold,
    Holding,
    Question,
    RowRequest,
    StopAt,
    Topology,
)


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A peer's rows of one round."""

    peer: int  # index into Seating.peers
    frame: Frame | CodedFrame


@dataclass(frozen=True, slots=True)
class PeerWants:
    """A stream to a peer is open; it lacks every frame from this round on."""

    peer: int
    round: int


@dataclass(frozen=True, slots=True)
class AskedBefore:
    """Some agents of the host have asked another question in this round, which stays."""

    question: Question


Event = Topology | FrameArrived | PeerWants | Answer | AskedBefore | Hold | StopAt | RowRequest | DisputedRows


@dataclass(frozen=True, slots=True)
class Send:
    """A frame for a peer."""

    peer: int
    frame: Frame | CodedFrame


@dataclass(frozen=True, slots=True)
class Ask:
    """The question of a round, for the adversary."""

    question: Question


@dataclass(frozen=True, slots=True)
class ReportRound:
    """A round is finished, and shall be reported."""

    round: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of the host after a round, to be stored on disk."""

    round: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Finish:
    """The last round is finished; only peers may still want frames."""


Effect = Send | Ask | ReportRound | Holding | Checkpoint | Finish | Dispute | DisputedRows | Disturbed
