"""`slaternet audit`: whether a run is what its journal says, and its journal what the rules say."""

from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from slaternet.errors import Diverged
from slaternet_lab.commands.common import JsonOption, RunArgument, bars, console, print_json
from slaternet_lab.folder import Run

if TYPE_CHECKING:
    from slaternet_lab.audit.report import Report

_COLOURS = {"ok": "green", "differs": "red", "not checked": "yellow"}


def audit(run: RunArgument, as_json: JsonOption = False) -> None:
    """Check a run from its journal and spec: budgets, commitments, graphs, decisions, values, scores, digest.

    Exit code 5 if anything differs.
    """
    from slaternet_lab.audit.auditor import audit as check

    with bars() as bar:
        task = bar.add_task("auditing", total=None)
        report = check(Run.open(run), lambda done, total: bar.update(task, completed=done, total=total))
    if as_json:
        print_json(report.plain())
    else:
        _show(report)
    if report.verdict == "differs":
        raise typer.Exit(Diverged.exit_code)


def _show(report: "Report") -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("check", style="bold")
    table.add_column("checked", justify="right")
    table.add_column("")
    table.add_column("verdict")
    for each in report.checks:
        table.add_row(each.name, f"{each.count:,}", each.unit, f"[{_COLOURS[each.verdict]}]{each.verdict}[/]")
    console().print(table)
    for sentence in report.sentences():
        console().print(escape(sentence), soft_wrap=True)
    console().print(f"digest of rounds 1 to {report.rounds}  {report.digest}", soft_wrap=True)
