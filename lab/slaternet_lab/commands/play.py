"""Play a game: `run` over the network, `simulate` without one, `resume` one that was interrupted."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
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
from slaternet_lab.commands.debugging import DebugOption, with_debugger
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
    plugin_patience: PatienceOption = LIMITS.plugin_patience,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    debug: DebugOption = False,
    no_figures: NoFiguresOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec over gRPC: a coordinator, an adversary and agent hosts as processes on this machine."""
    from slaternet.spec.plugins import is_python

    def played(debugged: bool) -> "tuple[Run, Spec]":
        from slaternet_lab.games.run import play

        game = _resolved(spec, settings, adversary, console, debugged=debugged)
        _recommend_exam(game)
        with nullcontext() if debugged else ProgressDisplay(game.run.rounds, console) as progress:
            run = play(
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
                debug=debugged and (debug or is_python(game.adversary.plugin)),
            )
        return run, game

    with fork_server() as server:  # first of all: it imports the services while we import the rest and read the spec
        console = _begin("playing", spec, adversary, as_json)
        ended, planned = with_debugger(played, wanted=debug, as_json=as_json)
    _tell_findings(ended)
    _conclude(ended, as_json, figures=not no_figures)
    _exit_if_degraded(ended, planned)


@with_traceback
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
    debug: DebugOption = False,
    no_figures: NoFiguresOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a spec in one process without a network; same digest, same run folder."""
    if watch and (as_json or debug):
        other = "--json is one result" if as_json else "--debug stops in one game"
        raise BadSpec(f"--watch shows how results change, and {other}; leave one of them out")
    console = _begin("playing", spec, adversary, as_json)
    if watch:
        from slaternet_lab.commands.again import watch as play_again

        play_again(spec, overrides(settings, adversary), out=out, force=force, figures=not no_figures)
        return
    from slaternet.spec.debugger import DebuggerNeeded
    from slaternet_adversary.shell.run_folder import new_folder
    from slaternet_lab.games.simulation import simulate as simulate_game

    begun: list[Path] = []  # the run folder, where the game has begun without a debugger

    def play(debugged: bool) -> "Run":
        game = _resolved(spec, settings, adversary, console, debugged=debugged)
        if not debugged:
            _recommend_exam(game)
        folder = begun[0] if begun else out or new_folder(game)
        with nullcontext() if debugged else _shown(game) as progress:
            try:
                return simulate_game(game, out=folder, force=force or bool(begun), progress=progress, finished=False)
            except DebuggerNeeded:
                begun.append(folder)
                raise

    _conclude(with_debugger(play, wanted=debug, as_json=as_json), as_json, figures=not no_figures)


@with_traceback
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
    _tell_findings(played)
    _conclude(played, as_json, figures=not no_figures)
    _exit_if_degraded(played, resumption.spec)


def _recommend_exam(game: "Spec") -> None:
    """Say that the adversary has changed since it passed the exam, or never has."""
    from slaternet_lab.tools.examined import needs_exam

    plugin = game.adversary.plugin
    if needs_exam(plugin):
        text = f"{plugin} has not been examined since its last change"
        command = f"slaternet adversary-check {shlex.quote(plugin)}"
        typer.echo(f"slaternet: {printable(f'{text}; {command}')}", err=True)


def _tell_findings(played: "Run") -> None:
    """Repeat what the adversary's process has found of its plugin, and logged."""
    from slaternet_adversary.shell.findings import findings

    for each in findings(played.folder):
        typer.echo(f"slaternet: {printable(each.sentence)}; {printable(each.evidence)}", err=True)


def _begin(doing: str, what: str | None, adversary: str | None, as_json: bool) -> Console:
    """Say what is done, before anything is imported or read that takes long; return the console of the progress."""
    # this very stream: what a plugin prints to standard output goes elsewhere
    console = Console(file=sys.stderr if as_json else sys.stdout, highlight=False)
    if console.is_terminal or not as_json:  # what a program reads on standard error is errors and progress
        against = f" with {adversary}" if adversary else ""
        console.print(printable(f"{doing} {what or 'the example of the paper'}{against}"), soft_wrap=True, markup=False)
    return console


def _conclude(played: "Run", as_json: bool, *, figures: bool) -> None:
    """Show the summary, and then complete the run folder: that takes longer."""
    from slaternet.spec.debugger import without_breakpoints
    from slaternet_lab.games.finish import finish

    show_summary(played, as_json=as_json)
    with redirect_stdout(sys.stderr), without_breakpoints():  # a plugin that is asked once more is not looked at
        finish(played.folder, figures=figures)


def _exit_if_degraded(played: "Run", planned: "Spec") -> None:
    """Tell by the exit code that agents have left, or that some decisions do not follow from the rules."""
    if played.spec.departures != planned.departures or (played.summary or {}).get("disturbed"):
        raise typer.Exit(DEGRADED)


@contextlib.contextmanager
def _shown(game: "Spec") -> Iterator[ProgressDisplay]:
    """Show progress, and what plugins print in this process, which is an algorithm's unless its caller knows better."""
    from slaternet.prints import label_of, labelled

    label, terminal = label_of(game.algorithm.name), sys.stdout
    display = ProgressDisplay(game.run.rounds, Console(file=terminal))
    with display as progress, labelled(label, terminal, progress.release):
        yield progress


def _resolved(
    what: str | None, settings: list[str] | None, adversary: str | None, console: Console, *, debugged: bool
) -> "Spec":
    """Return the spec to play, while a terminal shows that something is done: a plugin may take long to be made."""
    from slaternet_lab.specs.resolve import load

    with nullcontext() if debugged else ProgressDisplay(None, console, brief=True):
        return load(what, overrides(settings, adversary))
