"""Amendments: the plugin's code was changed within the game, and agrees with every answer that was given before.

A segment is the rounds that one code is committed to. An amendment begins a new one with the first round of which
nothing was revealed: commitments to that round and later ones are made anew, and older ones stay.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from slaternet.errors import Diverged


@dataclass(frozen=True, slots=True)
class Amendment:
    """From a round on, of which nothing was revealed, the adversary is committed to other code."""

    round: int
    old: str  # SHA-256 of the code before, in hexadecimal digits; empty where it is not known
    new: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The rounds from one on, up to the next segment's, and the SHA-256 of the code that they are committed to."""

    round: int
    code: str


def segments(first: str, amendments: Iterable[Amendment]) -> tuple[Segment, ...]:
    """Return the segments of a game that was begun with the code `first`.

    Diverged where an amendment replaces another code than the one before it.
    """
    made = [Segment(1, first)]
    for each in amendments:
        if each.old != made[-1].code or each.round < made[-1].round:
            raise Diverged(
                f"the journal has an amendment from round {each.round} on that does not follow from the one before; "
                "put back the right one"
            )
        if each.round == made[-1].round:  # nothing was revealed under the code before
            made.pop()
        made.append(Segment(each.round, each.new))
    return tuple(made)
