"""The exam of an adversary, from Python."""

from html import escape

from slaternet.spec import Spec
from slaternet.spec.paths import located
from slaternet_adversary import Adversary
from slaternet_adversary.testing import Line
from slaternet_adversary.testing import examine as examine_contract
from slaternet_lab.specs.resolve import exchanged, read
from slaternet_lab.specs.shipped import EXAM


class Exam(list[Line]):
    """The lines of an exam; a table in a notebook."""

    def __str__(self) -> str:
        """Return a line of text for each."""
        return "\n".join(f"{each.about:22}{each.verdict:9}{each.text}" for each in self)

    def _repr_html_(self) -> str:
        rows = ((each.about, each.verdict, each.text) for each in self)
        cells = ("".join(f'<td style="text-align: left">{escape(cell)}</td>' for cell in row) for row in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def examine(adversary: type[Adversary] | str, spec: Spec | str | None = None, **options: object) -> Exam:
    """Put an adversary, a class or a target such as "mine.py:Mine", through the exam, and return its lines.

        print(examine(Mine, budget=2.0))

    `options` are those of its constructor. The game is that of `spec`, or else 6 agents in the box [-2, 2]^5.
    """
    game = Spec.load(EXAM, source="exam") if spec is None else spec
    if not isinstance(game, Spec):
        game = located(*read(game, ()))
    return Exam(examine_contract(exchanged(game, adversary, options or None).replace(feedback=None)))
