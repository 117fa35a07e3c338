"""`slaternet compare`: several algorithms on the same functions and graphs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from slaternet.errors import BadSpec
from slaternet_lab.commands.common import JsonOption, SetOption, SpecArgument, console, print_json

if TYPE_CHECKING:
    from slaternet_lab.comparison.play import Comparison
    from slaternet_lab.comparison.standings import Spread, Standing

_HOSTS = 2
_INTERRUPTED = 130
_WIDE = 200
"""Columns of a table that nobody's terminal cuts."""

AlgorithmsOption = Annotated[
    str | None,
    typer.Option(
        "--algorithms",
        metavar="A,B,...",
        help="NAME, or NAME+key=value with settings of its own: yi2023+dual_linearised=false. The paper's if absent.",
    ),
]
SeedsOption = Annotated[int, typer.Option("--seeds", min=1, help="How many seeds: the spec's and the next ones.")]
GridOption = Annotated[
    list[str] | None,
    typer.Option("--grid", metavar="KEY=V,W", help="Values of a key, as in algorithm.gamma0=0.05,0.15; repeatable."),
]
NetworkOption = Annotated[bool, typer.Option("--network", help="Play over gRPC, one game after another.")]
HostsOption = Annotated[
    int | None,
    typer.Option("--hosts", min=1, help="With --network: agent hosts of a game; 2 if absent.", show_default=False),
]
JobsOption = Annotated[int | None, typer.Option("--jobs", min=1, help="Games at a time; all cores if absent.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="The folder; runs/NAME-compare-TIME if absent. Finished runs are kept."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Play everything anew, whatever the folder holds.")]


def compare(
    spec: SpecArgument = None,
    algorithms: AlgorithmsOption = None,
    seeds: SeedsOption = 5,
    grid: GridOption = None,
    settings: SetOption = None,
    network: NetworkOption = False,
    hosts: HostsOption = None,
    jobs: JobsOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play algorithms x seeds on the same functions and graphs; the same --out goes on where it was interrupted."""
    from slaternet_lab.comparison.contestants import split
    from slaternet_lab.comparison.play import compare as play_all

    if hosts is not None and not network:
        raise BadSpec("--hosts is for games over the network; add --network, or leave it out")
    if jobs is not None and network:
        raise BadSpec("--jobs is for simulated games, and those over the network are played one after another; drop it")
    try:
        found = play_all(
            spec,
            algorithms=split(algorithms) if algorithms is not None else None,
            seeds=seeds,
            grid=grid or (),
            settings=settings or (),
            hosts=(hosts or _HOSTS) if network else None,
            jobs=jobs,
            out=out,
            force=force,
            console=Console(stderr=as_json, highlight=False),
        )
    except KeyboardInterrupt as error:
        typer.echo(f"slaternet: {str(error) or 'interrupted'}", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    _show(found, as_json=as_json)
    _raise_failure(found)


def _show(found: "Comparison", *, as_json: bool) -> None:
    if as_json:
        print_json({**found.tables(), "folder": str(found.folder)})
        return
    screen = console()
    if not screen.is_terminal:
        screen.width = max(screen.width, _WIDE)
    if found.standings:
        screen.print(_table(found.standings))
    screen.print(f"{_seeds(found.standings)}; folder {found.folder}", soft_wrap=True)


def _table(standings: Sequence["Standing"]) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = [(heading, [cell(each) for each in standings]) for heading, cell in _COLUMNS.items()]
    known = [(heading, cells) for heading, cells in columns if any(cells)]
    for heading, _ in known:
        table.add_column(heading, justify="left" if heading == "algorithm" else "right", overflow="fold")
    for row in zip(*(cells for _, cells in known), strict=True):
        table.add_row(*row)
    return table


def _seeds(standings: Sequence["Standing"]) -> str:
    """Say how many seeds were played, which may differ where runs failed."""
    counts = {each.seeds for each in standings} or {0}
    low, high = min(counts), max(counts)
    if high <= 1:
        return ("no run was finished", "one seed")[high]
    return f"means ± standard deviations over {high if low == high else f'{low} to {high}'} seeds"


def _spread(spread: "Spread | None") -> str:
    """Write a mean and its deviation with as many digits as tell something."""
    if spread is None:
        return ""
    size = abs(spread.mean)
    digits = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3
    deviation = "" if spread.std is None else f" ± {spread.std:.{digits}f}"
    return f"{spread.mean:.{digits}f}{deviation}"


def _asked(standing: "Standing") -> str:
    """Say what an algorithm asks per agent and round: values at points, gradients of f and g."""
    parts = (
        f"{standing.points} point{'s' if standing.points > 1 else ''}" if standing.points else "",
        "df" if standing.loss_gradient else "",
        "dg" if standing.constraint_gradient else "",
    )
    return ", ".join(part for part in parts if part) or "nothing"


_COLUMNS: dict[str, Callable[["Standing"], str]] = {
    "algorithm": lambda each: each.label,
    "loss": lambda each: _spread(each.loss),
    "violation": lambda each: _spread(each.violation),
    "regret": lambda each: _spread(each.regret),
    "disagreement": lambda each: _spread(each.disagreement),
    "asks": _asked,
    "rounds/s": lambda each: f"{each.rounds_per_second:.0f}",
}


def _raise_failure(found: "Comparison") -> None:
    """End with the first failure's exit code where runs failed; what the others gave is shown already."""
    for name, error in found.failures.items():
        total = len(found.failures) + len(found.outcomes)
        raise type(error)(
            f"{len(found.failures)} of {total} runs failed, first {name}: {error} (the same command with --out "
            f"{found.folder} plays them again)"
        )
