"""`slaternet simulate --watch`: a game that is played again whenever one of its files is saved."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.console import Console

from slaternet.errors import BadSpec
from slaternet.service.main import main
from slaternet.spec.plugins import is_python
from slaternet_adversary.shell.run_folder import claim, new_folder
from slaternet_lab.commands.report import print_fields, print_line
from slaternet_lab.commands.runs import show_summary
from slaternet_lab.games.again import Watched, play_again
from slaternet_lab.games.finish import finish
from slaternet_lab.games.progress import ProgressDisplay
from slaternet_lab.games.simulation import simulate
from slaternet_lab.runs.run import Run, parting
from slaternet_lab.specs.resolve import load, read, resolve


def watch(what: str | None, settings: Sequence[str], *, out: Path | None, force: bool, figures: bool) -> None:
    """Play a spec again and again into one folder, until Ctrl-C."""
    spec, _ = read(what, settings)
    watched = Watched(what, settings)
    if not watched.find():
        raise BadSpec("--watch has no file to watch; name a spec of your own, or --adversary path/file.py:Class")
    folder = out or new_folder(spec)
    if (folder / "spec.toml").resolve() in watched.stamps():
        raise BadSpec(f"--out {folder} holds the spec that is played, and every game would replace it; choose another")
    claim(folder, force=force)
    games = _Games(what, settings, folder, watched, figures)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        play_again(watched, lambda: main("slaternet", games.play), games.ended, games.saved, meanwhile=_import_all)
    except KeyboardInterrupt:
        Console().show_cursor()  # a child that was killed has not
        raise typer.Exit from None


class _Games:
    """The games played so far; every one has its results in the same folder."""

    def __init__(
        self, what: str | None, settings: Sequence[str], folder: Path, watched: Watched, figures: bool
    ) -> None:
        self._what, self._settings = what, settings
        self._folder = folder
        self._watched = watched
        self._figures = figures
        self._last: Run | None = None

    def play(self) -> None:
        """Play once, in a child."""
        with contextlib.suppress(KeyboardInterrupt):  # a file has changed, and the parent says which
            spec, base = read(self._what, self._settings)
            if spec.adversary.isolation is None and is_python(spec.adversary.plugin):  # the child keeps it apart
                spec = spec.replace(**{"adversary.isolation": "none"})
            spec = resolve(spec, base)
            with ProgressDisplay(spec.run.rounds, Console(file=sys.stdout)) as progress:
                run = simulate(spec, out=self._folder, force=True, progress=progress, finished=False)
            if self._last is None:
                show_summary(run, as_json=False)
            else:
                print_fields(_changes(self._last, run))
            finish(self._folder, figures=self._figures)

    def ended(self, code: int | None) -> None:
        """Keep the result, and say what is waited for."""
        if (self._folder / "summary.json").exists():
            self._last = Run.open(self._folder)
            _ = self._last.summary, self._last.metrics  # read now: the next game replaces the files
        if code is None:
            return
        if code < 0:
            print_line(f"the process that played was killed by {signal.Signals(-code).name}")
        print_line(f"watching {_listed(self._watched.stamps())}; Ctrl-C ends")

    def saved(self, paths: Iterable[Path]) -> None:
        """Say which files were saved."""
        print_line(f"saved {_listed(paths)}")


def _import_all() -> None:
    """Import what resolving a spec, playing it and drawing figures import when they are called."""
    import matplotlib.backends.backend_agg  # noqa: F401

    load("paper-short")


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(sorted(os.path.relpath(path) for path in paths))


def _changes(before: Run, now: Run) -> list[tuple[str, str]]:
    """Return how a result differs from the last one."""
    totals = [
        (name, before.summary[key], now.summary[key])
        for name, key in (("loss", "cumulative_loss"), ("violation", "cumulative_violation"))
    ]
    if (shared := parting(before, now)) is not None:
        where = f"another game from round {shared + 1} on"
    elif before.rounds == now.rounds:
        where = "the same game, to the bit"
    else:
        where = f"the same game up to round {min(before.rounds, now.rounds)}"
    return [
        *((name, f"{old:.2f} -> {new:.2f} ({new - old:+.2f})") for name, old, new in totals),
        ("digest", f"{now.summary['digest'][:16]}, {where}"),
        ("time", f"{before.summary['seconds']:.2f} s -> {now.summary['seconds']:.2f} s"),
    ]
