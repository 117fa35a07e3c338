"""After a game: show, draw, export, compare and audit run folders, and compute their regret."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from slaternet.errors import BadSpec, Diverged
from slaternet_lab.commands.options import ForceOption, JsonOption, RunArgument
from slaternet_lab.commands.report import bar, print_fields, print_json, print_line, print_table

if TYPE_CHECKING:
    from slaternet_lab.hindsight.regret import Regret
    from slaternet_lab.runs.run import Run

_MODES = {"local": " (local: every agent alone)", "central": " (central: one learner for all)"}
_HOSTS = 12
"""Hosts in the table: more would push the summary off the screen."""


def show(run: RunArgument, as_json: JsonOption = False) -> None:
    """Show how a game ended, or how far it has come."""
    show_summary(_open(run), as_json=as_json)


def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; several are drawn together.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures; the run folder if there is one run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw loss.png and violation.png: cumulative loss and violation over the rounds, with the baseline."""
    from slaternet_lab.runs.plots import draw

    opened = [_open(each) for each in runs]
    if out is None and len(opened) > 1:
        raise BadSpec("--out is missing; say where the figures of several runs go, for example --out figures")
    paths = [str(path) for path in draw(opened, out or opened[0].folder)]
    _print_paths(paths, as_json)


def export(
    run: RunArgument,
    formats: Annotated[
        str, typer.Option("--format", metavar="FORMAT,...", help="Of csv, parquet and npz; parquet needs pyarrow.")
    ] = "csv",
    out: Annotated[Path | None, typer.Option(help="Folder for the files; RUN-export if absent.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write metrics and recorded decisions as tables for other tools."""
    from slaternet_lab.runs.export import export as export_run

    opened = _open(run)
    names = [name.strip() for name in formats.split(",")]
    folder = out or opened.folder.resolve().with_name(f"{opened.name}-export")
    paths = [str(path) for path in export_run(opened, names, folder, force=force)]
    _print_paths(paths, as_json)
    if opened.decisions is None:
        when = (
            "follow when the game is over" if opened.spec.record.decisions else "are kept with record.decisions = true"
        )
        typer.echo(f"without decisions: they {when}", err=True)


def _print_paths(paths: list[str], as_json: bool) -> None:
    if as_json:
        print_json(paths)
    else:
        typer.echo("\n".join(paths))


def diff(a: RunArgument, b: RunArgument, as_json: JsonOption = False) -> None:
    """Name the first round where two runs part, and the agent where decisions are recorded; exit code 5 if they do."""
    from slaternet_lab.runs.run import diff as find_difference

    first, second = _open(a), _open(b)
    found = find_difference(first, second)
    if as_json:
        print_json({"same": found is None, **(asdict(found) if found else {"common": first.rounds})})
        raise typer.Exit(Diverged.exit_code if found else 0)
    if found is None:
        typer.echo(f"the same to the bit: {first.rounds} rounds")
        return
    if found.round is None:
        typer.echo(f"the same through round {found.common}, where one of the two ends")
    else:
        known = f", at agent {found.agent}" if found.agent is not None else ""
        typer.echo(f"they part in round {found.round}{known or ' (record.decisions = true would name the agent)'}")
    raise typer.Exit(Diverged.exit_code)


def regret(
    run: RunArgument,
    points: Annotated[int, typer.Option(min=1, help="Prefixes of the game, log-spaced, on the curve.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Compute Net-Reg(T), the cumulative loss beyond the best fixed decision's, and write regret.csv and regret.png."""
    from slaternet_lab.hindsight.regret import regret as compute_regret

    opened = _open(run)
    with bar() as shown:
        result = compute_regret(opened, points=points, watch=shown.stage)
    paths = [str(path) for path in result.save(opened.folder)]
    if as_json:
        print_json(_plain_regret(result, paths))
    else:
        _show_regret(result, opened, paths)


def audit(run: RunArgument, as_json: JsonOption = False) -> None:
    """Check a run from its journal and spec: budgets, commitments, graphs, decisions, values, scores, digest.

    Exit code 5 if anything differs.
    """
    from slaternet_lab.audit.auditor import audit as check_run

    with bar() as shown:
        report = check_run(_open(run), partial(shown.stage, "auditing"))
    if as_json:
        print_json(report.plain())
    else:
        rows = [(each.name, f"{each.count:,}", each.unit, each.verdict) for each in report.checks]
        print_table(("check", "checked", "", "verdict"), rows, numbers=("checked",))
        for sentence in report.sentences():
            print_line(sentence)
        typer.echo(f"digest of rounds 1 to {report.rounds}  {report.digest}")
    if report.verdict == "differs":
        raise typer.Exit(Diverged.exit_code)


def _open(run: Path) -> "Run":
    from slaternet_lab.runs.run import Run

    return Run.open(run)


def show_summary(run: "Run", *, as_json: bool) -> None:
    """Print the result of a game, or its progress."""
    from slaternet_lab.runs.plots import baseline

    summary = run.summary or _so_far(run)
    if as_json:
        print_json({**summary, "folder": str(run.folder)})
        return
    hosts, network = summary.get("hosts"), run.summary.get("network", {})
    left = [f"agents {', '.join(map(str, each.agents))} in round {each.round}" for each in run.spec.departures]
    disturbed = summary.get("disturbed", False)
    traffic = []
    if network.get("bytes_sent"):  # not in a simulation
        sent, received = decimal(network["bytes_sent"]), decimal(network["bytes_received"])
        waited, skew = f"{network['waited']:.2f} s, summed over hosts", f"{1e3 * network['skew']:.2f} ms a round"
        traffic = [
            ("network", f"{network['frames']} frames; hosts sent {sent} and received {received}"),
            *_gossip_field(network, run.summary.get("gossip", {})),
            ("waiting", f"{waited}; skew {skew}"),
        ]
    resting = baseline(run.spec).replace("$", "")
    fields = [
        ("algorithm", f"{summary['algorithm']}{_MODES.get(run.spec.algorithm.mode or '', '')}"),
        ("agents", f"{summary['agents']}" + (f" on {hosts} host{'s' if hosts != 1 else ''}" if hosts else "")),
        *([("departed", "; ".join(left))] if left else []),
        *([("disturbed", "some decisions do not follow from the rules; see incidents.jsonl")] if disturbed else []),
        ("rounds", f"{summary['rounds']}" if run.summary else f"{summary['rounds']} (the game is not over)"),
        ("loss", f"{summary['cumulative_loss']:.2f} (cumulative)"),
        ("violation", f"{summary['cumulative_violation']:.2f} (cumulative)"),
        ("baseline", f"loss {summary['zero_loss']:.2f}, violation {summary['zero_violation']:.2f} ({resting})"),
        ("digest", str(summary["digest"])),
        ("game", "sealed" if run.spec.sealed else "open"),
        ("speed", f"{summary['rounds_per_second']:.0f} rounds/s ({summary['seconds']:.2f} s)"),
        *traffic,
        ("folder", str(run.folder)),
    ]
    print_fields(fields)
    if traffic and len(network.get("hosts", {})) > 1:
        _print_hosts(network["hosts"])


def _gossip_field(network: Mapping[str, float], gossip: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the line about rows; none where hosts did not report any."""
    if not network.get("rows_sent"):
        return []
    sent = f"{network['rows_sent']} rows in {decimal(int(network['gossip_bytes']))}"
    told = f"{sent} ({network['bytes_per_row']:.1f} bytes a row)"
    if network.get("saving", 0.0) > 0:
        told += f"; {gossip.get('code', 'exact')} saves {network['saving']:.1%} of these rows' float64"
    return [("gossip", told)]


def _so_far(run: "Run") -> dict[str, object]:
    """Return the summary's main keys from the last row of metrics.csv."""
    metrics = run.metrics
    last = {name: column[-1] if len(column) else 0 for name, column in metrics.items()}
    cumulative = ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation")
    seconds = float(last["seconds"])
    return {
        "algorithm": run.spec.algorithm.name,
        "agents": run.spec.run.agents,
        "rounds": int(last["round"]),
        **{name: float(last[name]) for name in cumulative},
        "digest": str(last["digest"]),
        "seconds": seconds,
        "rounds_per_second": int(last["round"]) / seconds if seconds else 0.0,
        "finished": False,
    }


def _print_hosts(hosts: Mapping[str, Mapping[str, float]]) -> None:
    """Print a line for each host; of many, those with the largest lag."""
    latest = sorted(hosts, key=lambda name: -hosts[name]["lag"])[:_HOSTS]
    headings = ("host", "seats", "frames", "sent", "received", "waited", "lag a round")
    rows = [
        (
            name,
            *(str(host[key]) for key in ("seats", "frames")),
            *(decimal(int(host[key])) for key in ("bytes_sent", "bytes_received")),
            f"{host['waited']:.2f} s",
            f"{1e3 * host['lag']:.2f} ms",
        )
        for name, host in hosts.items()
        if name in latest
    ]
    typer.echo()
    print_table(headings, rows, numbers=headings[1:])
    if len(hosts) > _HOSTS:
        typer.echo(f"and {len(hosts) - _HOSTS} hosts that came earlier: all are in summary.json")


def _plain_regret(result: "Regret", paths: list[str]) -> dict[str, object]:
    from slaternet_lab.hindsight.regret import COLUMNS

    curve = [
        {name: cell if math.isfinite(cell) else None for name, cell in zip(COLUMNS, row, strict=True)}
        for row in result.table()
    ]
    return {
        **curve[-1],
        "point": result.optima[-1].point.tolist(),
        "notes": list(result.notes),
        "curve": curve,
        "files": paths,
    }


def _show_regret(result: "Regret", run: "Run", paths: list[str]) -> None:
    headings = ("rounds", "loss", "optimum", "regret", "residual", "slack of x*")
    losses = run.metrics["cumulative_loss"][result.rounds - 1]
    rows = [
        (str(t), f"{loss:.2f}", f"{best:.2f}", f"{net:.2f}", f"{residual:.0e}", f"{round(slack, 9) + 0.0:.2g}")
        for (t, best, net, residual, slack, *_), loss in zip(result.table(), losses, strict=True)
    ]
    print_table(headings, rows, numbers=headings)
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
    fields += [("file", path) for path in paths]
    print_fields(fields)
