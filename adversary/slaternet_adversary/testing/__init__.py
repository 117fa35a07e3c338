"""The exam of an adversary: whether it keeps the contract of `slaternet_adversary.api`.

    for line in examine(spec):
        print(line.about, line.verdict, line.text)

    class TestBowl(AdversaryContract):          # in an author's own tests, for pytest
        target = "bowl.py:Bowl"
        options = {"budget": 2.0}

The adversary plays a small game several times: as in a game, again by a new instance, with many questions in every
round, and with none before the last round is played. A repeated question must be answered with the same bits.

    failed     breaks a game, or its functions are not convex or its constraints cannot be satisfied
    warning    slows a game down or voids a theorem
    note       could not be examined, or is only worth knowing
"""

from slaternet_adversary.testing.contract import AdversaryContract
from slaternet_adversary.testing.exam import examine, subject_of
from slaternet_adversary.testing.report import CHECKS
from slaternet_adversary.testing.subject import Line, Subject

__all__ = ["CHECKS", "AdversaryContract", "Line", "Subject", "examine", "subject_of"]
