"""`slaternet compare`: several algorithms on the same functions and graphs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.filesize import decimal

from slaternet.errors import BadSpec, PluginFailed
from slaternet.texts import printable
from slaternet_lab.commands import options
from slaternet_lab.commands.report import WIDE, print_json, print_line, print_table

if TYPE_CHECKING:
    from slaternet_lab.comparison.play import Comparison
    from slaternet_lab.comparison.standings import Spread, Standing

_HOSTS = 2
_BYTES = "bytes of rows"
_INTERRUPTED = 130


@options.with_traceback
def compare(
    spec: options.SpecArgument = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="NAME, or NAME+key=value with settings of its own: yi2023+dual_linearised=false. "
            "The paper's if absent.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help=options.SEEDS_HELP)] = 5,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V,W",
            help="Values of a key, as in algorithm.gamma0=0.05,0.15 or gossip.code=exact,grid+width=0.1; repeatable.",
        ),
    ] = None,
    adversary: options.AdversaryOption = None,
    settings: options.SetOption = None,
    network: Annotated[bool, typer.Option("--network", help="Play over gRPC, one game after another.")] = False,
    hosts: Annotated[
        int | None, typer.Option(min=1, help="With --network: agent hosts of a game; 2 if absent.", show_default=False)
    ] = None,
    jobs: options.JobsOption = None,
    out: options.OutOption = None,
    force: options.ForceOption = False,
    no_figures: options.NoFiguresOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Play algorithms x seeds on the same functions and graphs; the same --out goes on where it was interrupted."""
    from slaternet_lab.comparison.entries import split
    from slaternet_lab.comparison.play import compare as compare_algorithms

    if hosts is not None and not network:
        raise BadSpec("--hosts is for games over the network; add --network, or leave it out")
    if jobs is not None and network:
        raise BadSpec("--jobs is for simulated games, and those over the network are played one after another; drop it")
    try:
        found = compare_algorithms(
            spec,
            algorithms=split(algorithms) if algorithms is not None else None,
            seeds=seeds,
            grid=grid or (),
            settings=options.overrides(settings, adversary),
            hosts=(hosts or _HOSTS) if network else None,
            jobs=jobs,
            out=out,
            force=force,
            figures=not no_figures,
            console=Console(stderr=as_json, highlight=False),
        )
    except KeyboardInterrupt as error:
        typer.echo(f"slaternet: {printable(str(error)) or 'interrupted'}", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    _show(found, as_json=as_json)
    _raise_failure(found)


def _show(found: "Comparison", *, as_json: bool) -> None:
    if as_json:
        print_json({**found.tables(), "folder": str(found.folder)})
        return
    shown = {**_COLUMNS}
    if all(each.plain for each in found.standings):  # what rows cost follows from the algorithm's width
        del shown[_BYTES]
    columns = {heading: [cell(each) for each in found.standings] for heading, cell in shown.items()}
    known = {heading: cells for heading, cells in columns.items() if any(cells)}
    if found.standings:
        print_table(list(known), zip(*known.values(), strict=True), numbers=set(known) - {"algorithm"}, width=WIDE)
    print_line(f"{_seeds(found.standings)}; folder {found.folder}")


def _seeds(standings: Sequence["Standing"]) -> str:
    """Return how many seeds were played, in words; contestants differ where runs failed."""
    counts = {each.seeds for each in standings} or {0}
    low, high = min(counts), max(counts)
    if high <= 1:
        return ("no run was finished", "one seed")[high]
    return f"means ± standard deviations over {high if low == high else f'{low} to {high}'} seeds"


def _spread(spread: "Spread | None") -> str:
    """Return a mean and its deviation with as many digits as are significant."""
    if spread is None:
        return ""
    size = abs(spread.mean)
    digits = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3
    deviation = "" if spread.std is None else f" ± {spread.std:.{digits}f}"
    return f"{spread.mean:.{digits}f}{deviation}"


def _asked(standing: "Standing") -> str:
    """Return what an algorithm asks per agent and round: values at points, gradients of f and g."""
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
    _BYTES: lambda each: "" if each.gossip_bytes is None else decimal(int(each.gossip_bytes.mean)),
    "asks": _asked,
    "rounds/s": lambda each: f"{each.rounds_per_second:.0f}",
}


def _raise_failure(found: "Comparison") -> None:
    """Raise the first failure where runs failed; the results of the others are shown already."""
    for name, error in found.failures.items():
        total = len(found.failures) + len(found.outcomes)
        sentence = (
            f"{len(found.failures)} of {total} runs failed, first {name}: {error} (the same command with --out "
            f"{found.folder} plays them again)"
        )
        raise PluginFailed.saying(sentence, error.fault) if isinstance(error, PluginFailed) else type(error)(sentence)
