"""Play a game: `run` over the network, `simulate` without one, `resume` one that was interrupted."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from slaternet.service.main import DEGRADED
from slaternet.storage.journal import Durability
from slaternet_adversary.shell.command import KeepOption
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.shell.command import LostAfterOption, PolicyOption
from slaternet_lab.commands.options import (
    ForceOption,
    JsonOption,
    OutOption,
    RunArgument,
    SetOption,
    SpecArgument,
    with_traceback,
)
from slaternet_lab.commands.runs import show_summary
from slaternet_lab.games.fork_server import fork_server
from slaternet_lab.games.progress import ProgressDisplay

if TYPE_CHECKING:
    from slaternet.spec import Spec
    from slaternet_lab.runs.run import Run

NoRestartOption = Annotated[
    bool, typer.Option("--no-restart", help="End the game where a process dies, rather than start it again.")
]
AdversaryOption = Annotated[
    str | None,
    typer.Option(
        "--adversary",
        metavar="TARGET",
        help="Another adversary than the spec's: a name, pkg.module:Class, path/file.py:Class or grpc://HOST:PORT.",
    ),
]


@with_traceback
def run(
    spec: SpecArgument = None,
    hosts: Annotated[int, typer.Option(min=1, help="Agent hosts to start.")] = 2,
    no_restart: NoRestartOption = False,
    durability: Annotated[
        Durability,
        typer.Option(
            envvar="SLATERNET_DURABILITY", help="What is played survives: kill -9, or with fsync a power cut."
        ),
    ] = Durability.KILL,
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
    with fork_server() as server:  # first of all: it imports the services while we import the rest and read the spec
        from slaternet_lab.games.run import play

        game = _resolved(spec, settings, adversary)
        with ProgressDisplay(game.run.rounds, Console(stderr=as_json)) as progress:
            played = play(
                game,
                hosts=hosts,
                out=out,
                force=force,
                progress=progress,
                finished=False,
                restart=not no_restart,
                durability=durability,
                policy=policy,
                lost_after=lost_after,
                journal_keep=journal_keep,
                server=server,
            )
    _conclude(played, as_json)
    _exit_if_degraded(played, game)


@with_traceback
def simulate(
    spec: SpecArgument = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec in one process without a network; same digest, same run folder."""
    from slaternet_lab.games.simulation import simulate as simulate_game

    game = _resolved(spec, settings, adversary)
    with ProgressDisplay(game.run.rounds, Console(stderr=as_json)) as progress:
        played = simulate_game(game, out=out, force=force, progress=progress, finished=False)
    _conclude(played, as_json)


@with_traceback
def resume(
    run: RunArgument,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, metavar="N", help="Play to round N, also where the run is finished."),
    ] = None,
    no_restart: NoRestartOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run whose processes were all cut off; with --rounds, play a finished one on."""
    with fork_server() as server:
        from slaternet_lab.games.resume import prepare

        resumption = prepare(run, rounds=rounds)
        with ProgressDisplay(resumption.manifest.rounds, Console(stderr=as_json)) as progress:
            played = resumption.play(progress, finished=False, restart=not no_restart, server=server)
    _conclude(played, as_json)
    _exit_if_degraded(played, resumption.spec)


def _conclude(played: "Run", as_json: bool) -> None:
    """Show the summary, and then complete the run folder: that takes longer."""
    from slaternet_lab.games.finish import finish

    show_summary(played, as_json=as_json)
    finish(played.folder)


def _exit_if_degraded(played: "Run", planned: "Spec") -> None:
    """Tell by the exit code that agents have left, or that some decisions do not follow from the rules."""
    if played.spec.departures != planned.departures or (played.summary or {}).get("disturbed"):
        raise typer.Exit(DEGRADED)


def _resolved(what: str | None, settings: list[str] | None, adversary: str | None) -> "Spec":
    """Return the spec to play; another adversary than the spec's does not get the options of the old one."""
    from slaternet_lab.specs.resolve import load

    named = [] if adversary is None else [f"adversary.plugin={adversary}"]
    return load(what, [*named, *(settings or ())])
