"""Play a game: `run` over the network, `simulate` without one."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slaternet.journal import Durability
from slaternet.process import DEGRADED
from slaternet.spec import Spec
from slaternet_adversary.command import KeepOption
from slaternet_coordinator.command import LostAfterOption, PolicyOption
from slaternet_coordinator.rules import LOST_AFTER, Policy
from slaternet_lab.commands.common import JsonOption, SetOption, SpecArgument, print_fields, print_json
from slaternet_lab.commands.traffic import network_fields, print_hosts
from slaternet_lab.folder import Run
from slaternet_lab.progress import Progress

OutOption = Annotated[Path | None, typer.Option("--out", help="The run folder; runs/NAME-TIME if absent.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a run in that folder.")]
NoRestartOption = Annotated[
    bool, typer.Option("--no-restart", help="End the game where a process dies, rather than start it again.")
]
HostsOption = Annotated[int, typer.Option("--hosts", min=1, help="Agent hosts to start.")]
DurabilityOption = Annotated[
    Durability,
    typer.Option(envvar="SLATERNET_DURABILITY", help="What is played survives: kill -9, or with fsync a power cut."),
]
AdversaryOption = Annotated[
    str | None,
    typer.Option(
        "--adversary",
        metavar="TARGET",
        help="Another adversary than the spec's: a name, pkg.module:Class, path/file.py:Class or grpc://HOST:PORT.",
    ),
]


def run(
    spec: SpecArgument = None,
    hosts: HostsOption = 2,
    no_restart: NoRestartOption = False,
    durability: DurabilityOption = Durability.KILL,
    policy: PolicyOption = Policy.WAIT,
    lost_after: LostAfterOption = LOST_AFTER,
    journal_keep: KeepOption = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec over gRPC: a coordinator, an adversary and agent hosts as processes on this machine."""
    from slaternet_lab.network import play

    game = _resolved(spec, settings, adversary)
    with Progress(game.run.rounds, Console(stderr=as_json)) as progress:
        played = play(
            game,
            hosts=hosts,
            out=out,
            force=force,
            progress=progress,
            restart=not no_restart,
            durability=durability,
            policy=policy,
            lost_after=lost_after,
            journal_keep=journal_keep,
        )
    show_summary(played, as_json=as_json)
    if played.spec.departures != game.departures:
        raise typer.Exit(DEGRADED)


def simulate(
    spec: SpecArgument = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec in one process without a network; same digest, same run folder."""
    from slaternet_lab.simulation import simulate as play_here

    game = _resolved(spec, settings, adversary)
    with Progress(game.run.rounds, Console(stderr=as_json)) as progress:
        played = play_here(game, out=out, force=force, progress=progress)
    show_summary(played, as_json=as_json)


def show_summary(run: Run, *, as_json: bool) -> None:
    """Print how a game ended, or how far it came."""
    if as_json:
        print_json({**(run.summary or _so_far(run)), "folder": str(run.folder)})
        return
    summary = run.summary or _so_far(run)
    hosts = summary.get("hosts")
    fields = [
        ("algorithm", " ".join(part for part in (str(summary["algorithm"]), _mode(run)) if part)),
        (
            "agents",
            f"{summary['agents']} on {hosts} host{'s' if hosts != 1 else ''}" if hosts else str(summary["agents"]),
        ),
        *_departures(run),
        ("rounds", f"{summary['rounds']}" if run.summary else f"{summary['rounds']} (the game is not over)"),
        ("loss", f"{summary['cumulative_loss']:.2f} (cumulative)"),
        ("violation", f"{summary['cumulative_violation']:.2f} (cumulative)"),
        ("zero baseline", f"loss {summary['zero_loss']:.2f}, violation {summary['zero_violation']:.2f}"),
        ("digest", str(summary["digest"])),
        ("speed", f"{summary['rounds_per_second']:.0f} rounds/s ({summary['seconds']:.2f} s)"),
        *network_fields(run),
        ("folder", str(run.folder)),
    ]
    print_fields(fields)
    print_hosts(run)


def _departures(run: Run) -> list[tuple[str, str]]:
    """Say who has left the game."""
    left = [f"agents {', '.join(map(str, each.agents))} in round {each.round}" for each in run.spec.departures]
    return [("departed", "; ".join(left))] if left else []


def _mode(run: Run) -> str:
    """Say where agents did not gossip."""
    return {"local": "(local: every agent alone)", "central": "(central: one learner for all)"}.get(
        run.spec.algorithm.mode or "", ""
    )


def _so_far(run: Run) -> dict[str, object]:
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


def _resolved(what: str | None, settings: list[str] | None, adversary: str | None) -> Spec:
    """Return the spec to play; another adversary than the spec's comes without the options of the old one."""
    from slaternet_lab.resolve import load

    named = [] if adversary is None else [f"adversary.plugin={adversary}"]
    return load(what, [*named, *(settings or ())])
