"""What we promise, and whether it holds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console

console = Console(highlight=False)


class Claim(NamedTuple):
    """One promise, with what was measured."""

    text: str
    holds: bool


def ratio(times: Mapping[str, Sequence[float]], who: str, against: str) -> float:
    """Return one's speed in parts of another's, given what a round took in each turn: the median of all turns' ratios.

    Those who are compared play one right after the other, so that a machine that gets slower for a while slows both.
    """
    return statistics.median(theirs / own for own, theirs in zip(times[who], times[against], strict=True))


def at_least(times: Mapping[str, Sequence[float]], who: str, against: str, share: float) -> Claim:
    """Claim that one has at least this share of another's speed."""
    reached = ratio(times, who, against)
    return Claim(f"{who} at {reached:.2f} of {against} (at least {share})", reached >= share)


def at_most(what: str, measured: float, limit: float, unit: str = "") -> Claim:
    """Claim that something measured is not above a limit."""
    return Claim(f"{what}: {measured:.4g}{unit} (at most {limit:.4g}{unit})", measured <= limit)


def judge(claims: Iterable[Claim]) -> bool:
    """Print every claim with its verdict; say whether all hold."""
    said = list(claims)
    for text, holds in said:
        console.print(f"{text}: {'holds' if holds else 'DOES NOT HOLD'}", soft_wrap=True)
    return all(holds for _, holds in said)
