"""`slaternet verify`: how fast regret and violation grow, and where that lies among the theorems' bounds."""

from typing import Annotated

import typer
from rich.console import Console

from slaternet_lab.commands.options import (
    SEEDS_HELP,
    AdversaryOption,
    JobsOption,
    JsonOption,
    OutOption,
    SetOption,
    overrides,
)
from slaternet_lab.commands.report import WIDE, print_json, print_line, print_table

_HEADINGS = ("theorem", "game", "quantity", "bound", "exponent (95 %)", "verdict", "because")


def verify(
    spec: Annotated[
        str | None,
        typer.Argument(metavar="SPEC", help="A shipped name or a file; the games theorem1 to theorem4 if absent."),
    ] = None,
    theorem: Annotated[int | None, typer.Option(min=1, max=4, help="The theorem to test; all if absent.")] = None,
    seeds: Annotated[int, typer.Option(min=2, help=SEEDS_HELP)] = 10,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    jobs: JobsOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play games of growing length and say how fast regret and violation grow, beside the theorems' bounds.

    It takes some minutes. The theorems are about zhang2024: another algorithm.name, schedule or mode is refused.
    """
    from slaternet_lab.verification.studies import verify as verify_theorems

    folder, studies = verify_theorems(
        spec,
        theorem,
        seeds=seeds,
        settings=overrides(settings, adversary),
        jobs=jobs,
        out=out,
        console=Console(stderr=as_json, highlight=False),
    )
    if as_json:
        print_json({"studies": [each.table() for each in studies], "folder": str(folder)})
        return
    rows = []
    for study in studies:
        for each in study.findings:
            fit, game = each.fit, study.game.rpartition("/")[2]
            exponent = "" if fit is None else f"{fit.exponent:.3f} ({fit.low:.3f} to {fit.high:.3f})"
            rows.append((str(each.theorem), game, each.quantity, each.bound, exponent, each.verdict, each.reason))
    print_table(_HEADINGS, rows, width=WIDE)
    for study in studies:
        for remark in study.remarks:
            print_line(f"Theorem {study.theorem}, beside it  {remark}")
    print_line(f"folder  {folder}")
