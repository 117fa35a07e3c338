"""One line of the report on a spec's assumptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PAPER = "zhang2024"
"""The algorithm that Theorems 1 to 4 are about."""

Verdict = Literal["ok", "note", "warning", "error"]
"""A note is neither good nor bad: what was looked at, what could not be, what does not concern this spec."""


@dataclass(frozen=True)
class Finding:
    """One line of the report: what is kept, what voids a theorem (a warning), what breaks the protocol (an error)."""

    verdict: Verdict
    about: str
    text: str
    figures: Mapping[str, float | list[float]] = field(default_factory=dict)
    """The numbers of the text in full, by name."""
