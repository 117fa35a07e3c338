"""Put an adversary through the exam."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from slaternet.errors import PluginFailed
from slaternet.plugins import absolute, is_foreign
from slaternet.spec import Spec, override
from slaternet_lab.commands.common import JsonOption, console, print_json

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "failed": "red"}

_SMALL: dict[str, object] = {
    "run": {"name": "exam", "agents": 6, "dimension": 5},
    "set": {"kind": "box", "lower": -2.0, "upper": 2.0},
    "graph": {"name": "complete"},
    "algorithm": {"name": "zero"},
    "adversary": {"plugin": ""},
}
"""The game of an exam where no spec is named; only agents and set matter."""


def adversary_check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A name, pkg.module:Class, path/file.py:Class or grpc://HOST:PORT of an adversary.",
        ),
    ],
    spec: Annotated[
        str | None,
        typer.Option(
            "--spec",
            metavar="SPEC",
            help="The game it is examined in: a shipped name, a file or a run folder. If absent, the shipped spec of "
            "its name, or else 6 agents in the box [-2, 2]^5.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key of that spec, as in adversary.options.b=1 or run.agents=3; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Put an adversary through the exam: its contract, convex functions, a feasible point, what it costs.

    Its code runs in this process; `--set adversary.isolation=process` examines it behind its worker.
    """
    from slaternet_lab.exam import examine

    report = examine(_spec(target, spec, settings or []))
    if as_json:
        print_json([asdict(each) for each in report])
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("line", "verdict", "figure"):
            table.add_column(heading, no_wrap=heading != "figure")
        for each in report:
            table.add_row(each.about, f"[{_COLOURS[each.verdict]}]{each.verdict}[/]", escape(each.text))
        console().print(table)
    for each in report:
        if each.verdict == "failed":
            raise PluginFailed(f"adversary {target} fails the exam: {each.about}: {each.text}")


def _spec(target: str, what: str | None, settings: Sequence[str]) -> Spec:
    """Return the game with this adversary, which keeps the options of a spec that is about it."""
    from slaternet_lab import library

    plugin = absolute(target, Path.cwd())
    named = [f"adversary.plugin={plugin}", *settings]
    if what is None and target not in library.names():
        spec = Spec.load(override(_SMALL, named), source="--set")
    else:
        spec = _read(what or target, settings)
        spec = spec if spec.adversary.plugin == plugin else _read(what or target, named)
    if spec.adversary.isolation is None and not is_foreign(plugin):
        spec = spec.replace(**{"adversary.isolation": "none"})
    return spec.replace(feedback=None)  # what agents are granted is not the adversary's business


def _read(what: str, settings: Sequence[str]) -> Spec:
    from slaternet.paths import located
    from slaternet_lab.resolve import read

    return located(*read(what, settings))
