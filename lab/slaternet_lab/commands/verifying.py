"""`slaternet verify`: whether the theorems' rates are seen."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from slaternet_lab.commands.common import JsonOption, SetOption, console, print_json

if TYPE_CHECKING:
    from slaternet_lab.verification.studies import Study
    from slaternet_lab.verification.theorems import Finding

_COLOURS = {"seen": "green", "not seen": "red", "not tested": "yellow"}

SpecArgument = Annotated[
    str | None,
    typer.Argument(metavar="SPEC", help="A shipped name or a file; the shipped games theorem1 to theorem4 if absent."),
]
TheoremOption = Annotated[
    int | None, typer.Option("--theorem", min=1, max=4, help="The theorem to test; all if absent.")
]
SeedsOption = Annotated[int, typer.Option("--seeds", min=2, help="How many seeds: the spec's and the next ones.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", min=1, help="Games at a time; all cores if absent.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder for report and figures; runs/verify-TIME if absent.")
]


def verify(
    spec: SpecArgument = None,
    theorem: TheoremOption = None,
    seeds: SeedsOption = 10,
    settings: SetOption = None,
    jobs: JobsOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play games of growing length and say for each theorem whether its rates are seen; some minutes."""
    from slaternet_lab.verification.studies import verify as put_to_the_test

    progress = Console(stderr=as_json, highlight=False)
    folder, studies = put_to_the_test(
        spec, theorem, seeds=seeds, settings=settings or (), jobs=jobs, out=out, console=progress
    )
    if as_json:
        print_json({"studies": [each.table() for each in studies], "folder": str(folder)})
        return
    console().print(_table(studies))
    for study in studies:
        for remark in study.remarks:
            console().print(f"Theorem {study.theorem}, beside it  {remark}", soft_wrap=True)
    console().print(f"folder  {folder}", soft_wrap=True)


def _table(studies: Sequence["Study"]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("theorem", "game", "quantity", "bound", "exponent (95 %)", "verdict", "because"):
        table.add_column(heading, overflow="fold")
    for study in studies:
        for each in study.findings:
            verdict = f"[{_COLOURS[each.verdict]}]{each.verdict}[/]"
            name = study.game.rpartition("/")[2]
            table.add_row(str(each.theorem), name, each.quantity, each.bound, _exponent(each), verdict, each.reason)
    return table


def _exponent(finding: "Finding") -> str:
    fit = finding.fit
    return "" if fit is None else f"{fit.exponent:.3f} ({fit.low:.3f} to {fit.high:.3f})"
