"""Play a game: `run` over the network, `simulate` without one, `resume` one that was interrupted."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.service.main import DEGRADED
from slaternet.storage.journal import Durability
from slaternet.texts import printable
from slaternet_adversary.shell.command import KeepOption, PatienceOption
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.shell.command import LostAfterOption, PolicyOption
from slaternet_lab.commands.options import (
    AdversaryOption,
    ForceOption,
    JsonOption,
    NoFiguresOption,
    OutOption,
    RunArgument,
    SetOption,
    SpecArgument,
    overrides,
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
    plugin_patience: PatienceOption = LIMITS.plugin_patience,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    no_figures: NoFiguresOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec over gRPC: a coordinator, an adversary and agent hosts as processes on this machine."""
    with fork_server() as server:  # first of all: it imports the services while we import the rest and read the spec
        console = _begin("playing", spec, adversary, as_json)
        from slaternet_lab.games.run import play

        game = _resolved(spec, settings, adversary, console)
        with ProgressDisplay(game.run.rounds, console) as progress:
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
                plugin_patience=plugin_patience,
                server=server,
            )
    _conclude(played, as_json, figures=not no_figures)
    _exit_if_degraded(played, game)


def simulate(
    spec: SpecArgument = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Play again into the same folder whenever a file of the game is saved."),
    ] = False,
    out: OutOption = None,
    force: ForceOption = False,
    no_figures: NoFiguresOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec in one process without a network; same digest, same run folder."""
    if watch and as_json:
        raise BadSpec("--watch shows how results change, and --json is one result; leave one of them out")
    console = _begin("playing", spec, adversary, as_json)
    if watch:
        from slaternet_lab.commands.again import watch as play_again

        play_again(spec, overrides(settings, adversary), out=out, force=force, figures=not no_figures)
        return
    from slaternet_lab.games.simulation import simulate as simulate_game

    game = _resolved(spec, settings, adversary, console)
    with ProgressDisplay(game.run.rounds, console) as progress:
        played = simulate_game(game, out=out, force=force, progress=progress, finished=False)
    _conclude(played, as_json, figures=not no_figures)


def resume(
    run: RunArgument,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, metavar="N", help="Play to round N, also where the run is finished."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a limit of the plugin, adversary.seconds or adversary.memory; repeatable.",
        ),
    ] = None,
    no_restart: NoRestartOption = False,
    plugin_patience: PatienceOption = LIMITS.plugin_patience,
    no_figures: NoFiguresOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run whose processes were all cut off; with --rounds, play a finished one on."""
    with fork_server() as server:
        console = _begin("resuming", str(run), None, as_json)
        from slaternet_lab.games.resume import prepare

        resumption = prepare(run, rounds=rounds, settings=settings or ())
        with ProgressDisplay(resumption.manifest.rounds, console) as progress:
            played = resumption.play(
                progress, finished=False, restart=not no_restart, plugin_patience=plugin_patience, server=server
            )
    _conclude(played, as_json, figures=not no_figures)
    _exit_if_degraded(played, resumption.spec)


def _begin(doing: str, what: str | None, adversary: str | None, as_json: bool) -> Console:
    """Say what is done, before anything is imported or read that takes long; return the console of the progress."""
    console = Console(stderr=as_json, highlight=False)
    if console.is_terminal or not as_json:  # what a program reads on standard error is errors and progress
        against = f" with {adversary}" if adversary else ""
        console.print(printable(f"{doing} {what or 'the example of the paper'}{against}"), soft_wrap=True, markup=False)
    return console


def _conclude(played: "Run", as_json: bool, *, figures: bool) -> None:
    """Show the summary, and then complete the run folder: that takes longer."""
    from slaternet_lab.games.finish import finish

    show_summary(played, as_json=as_json)
    finish(played.folder, figures=figures)


def _exit_if_degraded(played: "Run", planned: "Spec") -> None:
    """Tell by the exit code that agents have left, or that some decisions do not follow from the rules."""
    if played.spec.departures != planned.departures or (played.summary or {}).get("disturbed"):
        raise typer.Exit(DEGRADED)


def _resolved(what: str | None, settings: list[str] | None, adversary: str | None, console: Console) -> "Spec":
    """Return the spec to play, while a terminal shows that something is done: a plugin may take long to be made."""
    from slaternet_lab.specs.resolve import load

    with ProgressDisplay(None, console, brief=True):
        return load(what, overrides(settings, adversary))
