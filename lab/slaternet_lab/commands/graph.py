"""`slaternet graph`: the time-varying graphs of a spec, shown or written for other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slaternet.errors import BadSpec
from slaternet.storage.disk import replacing
from slaternet_lab.commands.options import AdversaryOption, JsonOption, SetOption, SpecArgument, overrides
from slaternet_lab.commands.report import print_fields, print_json, print_table

if TYPE_CHECKING:
    from slaternet_coordinator.graphs import Graph

_LISTED = 12
"""Rounds shown one by one."""
_ROUNDS = 1000
"""Rounds that are examined by default."""
_BYTES = 1 << 31
"""Largest W that is written."""


def graph(
    spec: SpecArgument = None,
    rounds: Annotated[
        str | None, typer.Option(metavar="A:B", help="First and last round; absent: from 1, at most 1000.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write W (rounds x n x n) and the round numbers to this .npz file.")
    ] = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the graphs of a spec: edges, weights, and the window within which they connect."""
    from slaternet.spec.paths import located
    from slaternet_coordinator.graphs import assumption4
    from slaternet_coordinator.registry import build
    from slaternet_lab.specs.protocol import connecting
    from slaternet_lab.specs.resolve import read

    parsed, base = read(spec, overrides(settings, adversary))
    parsed = located(parsed, base, ("graph.name", "graph.path"))
    agents = parsed.run.agents
    first, last = _interval(rounds, min(parsed.run.rounds or _ROUNDS, _ROUNDS))
    drawn = build(parsed.graph, agents, parsed.run.seed)
    if out is not None:
        _write(drawn, first, last, agents, out)
    lines = [_describe(drawn, t) for t in range(first, last + 1)]
    window = assumption4.window(drawn, last)
    if as_json:
        print_json({"graph": parsed.graph.name, "agents": agents, "window": window, "rounds": lines})
        return
    headings = [name.replace("_", " ") for name in lines[0]]
    print_table(headings, [[f"{value:g}" for value in line.values()] for line in lines[:_LISTED]], numbers=headings)
    if len(lines) > _LISTED:
        typer.echo(f"... and {len(lines) - _LISTED} rounds more (--json lists all)")
    text = connecting(window) if window else "not even all graphs together connect everyone"
    print_fields(
        [
            ("graph", f"{parsed.graph.name}, {agents} agents, rounds {first} to {last}"),
            ("window", f"{text} in rounds 1 to {last}"),
            *([("written", str(out))] if out else []),
        ]
    )


def _interval(rounds: str | None, last: int) -> tuple[int, int]:
    if rounds is None:
        return 1, last
    begin, colon, end = rounds.partition(":")
    if not (begin.isdecimal() and (end if colon else begin).isdecimal()):
        raise BadSpec(f"--rounds {rounds} is not A:B; write for example --rounds 1:100")
    interval = int(begin), int(end if colon else begin)
    if not 1 <= interval[0] <= interval[1]:
        raise BadSpec(f"--rounds {rounds} must begin at 1 or later and not end before it begins")
    return interval


def _describe(graph: "Graph", t: int) -> dict[str, int | float]:
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = graph.matrix(t)
    n = matrix.agents
    entries = csr_array((matrix.weights, matrix.columns, matrix.starts), shape=(n, n))
    others = len(matrix.columns) - n
    outgoing = np.bincount(matrix.columns)  # in a directed graph an agent may send to many and receive from few
    return {
        "round": t,
        "edges": others if graph.directed else others // 2,
        "largest_degree": int(max(matrix.lengths.max(), outgoing.max())) - 1,
        "smallest_weight": float(matrix.weights.min()),
        "groups": int(connected_components(entries, directed=graph.directed, connection="strong")[0]),
    }


def _write(graph: "Graph", first: int, last: int, agents: int, out: Path) -> None:
    import numpy as np

    rounds = np.arange(first, last + 1)
    if len(rounds) * agents * agents * 8 > _BYTES:
        raise BadSpec(f"--out would write more than {_BYTES >> 30} GiB; choose fewer rounds with --rounds A:B")
    weights = np.stack([graph.matrix(int(t)).dense() for t in rounds])
    with replacing(out) as file:
        np.savez_compressed(file, W=weights, rounds=rounds)
