"""After a game: its regret against the best fixed decision in hindsight."""

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from slaternet_lab.commands.common import JsonOption, RunArgument, bars, console, print_fields, print_json
from slaternet_lab.folder import Run

if TYPE_CHECKING:
    from slaternet_lab.hindsight.regret import Regret

PointsOption = Annotated[int, typer.Option("--points", min=1, help="Prefixes of the game, log-spaced, on the curve.")]


def regret(run: RunArgument, points: PointsOption = 20, as_json: JsonOption = False) -> None:
    """Compute Net-Reg(T), the cumulative loss beyond the best fixed decision's, and write regret.csv and regret.png."""
    from slaternet_lab.hindsight import regret as hindsight

    opened = Run.open(run)
    with bars() as bar:
        tasks = {what: bar.add_task(what, visible=False) for what in hindsight.STAGES}
        result = hindsight.regret(
            opened,
            points=points,
            watch=lambda what, done, total: bar.update(tasks[what], completed=done, total=total, visible=done < total),
        )
    paths = [str(path) for path in result.save(opened.folder)]
    if as_json:
        print_json(_plain(result, paths))
    else:
        _show(result, opened, paths)


def _plain(result: "Regret", paths: list[str]) -> dict[str, object]:
    from slaternet_lab.hindsight.regret import COLUMNS

    curve = [{name: _known(cell) for name, cell in zip(COLUMNS, row, strict=True)} for row in result.table()]
    return {
        **curve[-1],
        "point": result.optima[-1].point.tolist(),
        "notes": list(result.notes),
        "curve": curve,
        "files": paths,
    }


def _known(cell: float) -> float | None:
    """Return what JSON can hold."""
    return cell if math.isfinite(cell) else None


def _show(result: "Regret", run: Run, paths: list[str]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("rounds", "loss", "optimum", "regret", "residual", "slack of x*"):
        table.add_column(heading, justify="right")
    for (rounds, optimum, regret, residual, slack, *_), loss in zip(
        result.table(), run.metrics["cumulative_loss"][result.rounds - 1], strict=True
    ):
        table.add_row(
            str(rounds),
            f"{loss:.2f}",
            f"{optimum:.2f}",
            f"{regret:.2f}",
            f"{residual:.0e}",
            f"{round(slack, 9) + 0.0:.2g}",
        )
    console().print(table)
    _, optimum, net, _, _, tolerant, l1 = result.table()[-1]
    last = int(result.rounds[-1])
    fields = [
        (f"Net-Reg({last})", f"{net:.6f} = {net + optimum:.6f} lost - {optimum:.6f} of the best fixed decision"),
        ("Net-CCV", f"{run.metrics['cumulative_violation'][last - 1]:.2f} (sum of norms of [g]_+, as in metrics.csv)"),
    ]
    if not math.isnan(l1):
        fields.append(("tolerant", f"{tolerant:.2f} (norm of [sum of g]_+: slack of one round pays for another)"))
        fields.append(("L1", f"{l1:.2f} (sum of all entries of [g]_+, not divided by n)"))
    fields += [("note", note) for note in result.notes]
    fields.append(("files", "\n".join(paths)))
    print_fields((name, escape(value)) for name, value in fields)  # [g]_+ is no markup
