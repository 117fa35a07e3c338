"""`slaternet compare`: play algorithms x seeds x a grid of settings on the same functions and graphs."""

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from slaternet.errors import BadSpec, SlaternetError
from slaternet.spec import Spec
from slaternet.texts import printable
from slaternet_adversary.shell.run_folder import new_folder
from slaternet_lab.comparison.entries import Entries, read_entries
from slaternet_lab.comparison.figures import draw
from slaternet_lab.comparison.folder import ComparedRun, ComparisonFolder, drawn_before
from slaternet_lab.comparison.standings import MeanCurves, Outcome, Standing, review, standing
from slaternet_lab.games.pool import Rounds, Task, cores, perform
from slaternet_lab.games.progress import ProgressDisplay
from slaternet_lab.games.simulation import simulate
from slaternet_lab.runs.run import Run

SEEDS = 5
"""The default number of seeds."""


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; `failures` are the runs that could not be played, with their errors."""

    folder: Path
    standings: tuple[Standing, ...]
    outcomes: tuple[Outcome, ...]
    failures: dict[str, SlaternetError]
    notes: tuple[str, ...]

    def tables(self) -> dict[str, Any]:
        """Return everything in plain lists and tables, for JSON."""
        return {
            "standings": [asdict(each) for each in self.standings],
            "runs": [asdict(each) for each in self.outcomes],
            "failures": {name: str(error) for name, error in self.failures.items()},
            "notes": list(self.notes),
        }


def compare(
    what: str | None = None,
    *,
    algorithms: Sequence[str] | None = None,
    seeds: int = SEEDS,
    grid: Sequence[str] = (),
    settings: Sequence[str] = (),
    hosts: int | None = None,
    jobs: int | None = None,
    out: Path | None = None,
    force: bool = False,
    figures: bool = True,
    console: Console | None = None,
) -> Comparison:
    """Play algorithms on the same functions and graphs, with the spec's seed and the next ones.

    compare("paper", algorithms=["zhang2024", "yi2023+dual_linearised=false"], grid=["algorithm.delta0=0.01,0.1"])

    Without algorithms: the paper's comparison. `settings` are those of `load`. Games are simulated in `jobs` processes,
    or with `hosts` played over gRPC, one after another. In a folder `out` of the same comparison finished runs are
    kept, unless forced. Without `figures` none are drawn. Progress is shown on the console. BadSpec, one sentence,
    before anything is played.
    """
    drawn = None if out is None else drawn_before(out)
    entries = read_entries(what, algorithms, seeds=seeds, grid=grid, settings=settings, drawn=drawn)
    first = entries.contestants[0].specs[0]
    path = out or new_folder(first.replace(**{"run.name": f"{first.run.name}-compare"}))
    games = [
        ComparedRun(each.label, spec, path / each.folder / f"seed-{spec.run.seed}")
        for each in entries.contestants
        for spec in each.specs
    ]
    agents = min(game.spec.run.agents for game in games)
    if hosts is not None and hosts > agents:
        raise BadSpec(f"--hosts {hosts} is more than the {agents} agents of a game; every host needs an agent")
    folder = ComparisonFolder(path, games, hosts)
    playing = _Playing(games, folder.claim(force=force), keep=not force, console=console or Console(quiet=True))
    if entries.left_out:
        keys = (f"{key} ({', '.join(labels)})" for key, labels in entries.left_out.items())
        playing.note(f"left out for those who do not take it: {', '.join(keys)}")
    try:
        playing.play(jobs or cores(), hosts, path / "log")
        return _concluded(entries, playing, folder, hosts, figures=figures)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted after {playing.done} of {len(games)} runs; the same command with --out {path} goes on there"
        ) from None


class _Playing:
    """The games of a comparison while they are played."""

    def __init__(self, games: Sequence[ComparedRun], optima: dict[str, float], *, keep: bool, console: Console) -> None:
        self.games = games
        self.optima = optima
        """The loss of the best fixed decision, by digest of the functions."""
        self.failures: dict[str, SlaternetError] = {}
        self.notes: list[str] = []
        self._console = console
        self._todo = [game for game in games if not (keep and game.finished())]
        self._rounds = {game.name: game.rounds for game in games} | {game.name: 0 for game in self._todo}
        self.done = len(games) - len(self._todo)

    def play(self, jobs: int, hosts: int | None, log: Path) -> None:
        """Play what is not finished, and find the optima that are not known."""
        if self.done:
            self._print(f"{self.done} finished runs are kept")
        todo = sorted(self._todo, key=lambda game: game.spec.run.seed)
        tasks = [] if hosts else [Task(game.name, simulate_game, (game.spec, game.folder)) for game in todo]
        functions = {_functions(game.spec): game.spec for game in self.games if game.spec.record.score_every == 1}
        tasks += [Task(key, offline_optimum, (spec,)) for key, spec in functions.items() if key not in self.optima]
        rounds, before = sum(game.rounds for game in self.games), sum(self._rounds.values())
        with (
            ProgressDisplay(rounds, self._console, done=before) as self._progress,
            contextlib.closing(perform(tasks, jobs, log, self._advance)) as outcomes,
        ):
            for game in todo if hosts else ():
                self._finish(game.name, _play(game, hosts or 1, Rounds(partial(self._advance, game.name))))
            for outcome in outcomes:
                if outcome.task.function is simulate_game:
                    self._finish(outcome.task.name, outcome.error)
                elif outcome.error:
                    self.note(f"the regret is not known: {outcome.error}")
                else:
                    self.optima[outcome.task.name] = outcome.result

    def note(self, sentence: str) -> None:
        """Print a note, once, and keep it for the file."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            self._print(sentence)

    def _print(self, sentence: str) -> None:
        self._console.print(printable(sentence), markup=False, soft_wrap=True)

    def _advance(self, name: str, round: int) -> None:
        """Show the round of a game; the search for an optimum has none."""
        if name in self._rounds:
            self._rounds[name] = round
            self._progress.show(sum(self._rounds.values()), f"{self.done}/{len(self.games)} runs", name)

    def _finish(self, name: str, error: SlaternetError | None) -> None:
        if error:
            self.failures[name] = error
        else:
            self.done += 1
        self._advance(name, next(game.rounds for game in self.games if game.name == name))


def simulate_game(spec: Spec, folder: Path, rounds: Rounds) -> None:
    """Simulate a game; its results are in its folder."""
    simulate(spec, out=folder, force=True, progress=rounds, figures=False)


def offline_optimum(spec: Spec, rounds: Rounds) -> float:
    """Return the least loss of a fixed decision that is feasible in all rounds of a game."""
    from slaternet_lab.hindsight.comparator import offline

    del rounds
    return offline(spec).value


def _play(game: ComparedRun, hosts: int, rounds: Rounds) -> SlaternetError | None:
    """Play a game over the network; return the error where it failed."""
    from slaternet_lab.games.run import play

    try:
        play(game.spec, hosts=hosts, out=game.folder, force=True, progress=rounds, figures=False)
    except SlaternetError as error:
        return error
    if not game.finished():
        raise KeyboardInterrupt  # the first Ctrl-C ends a game after its current round
    return None


def _functions(spec: Spec) -> str:
    """Return the digest of what decides a game's functions: the spec without algorithm, graph and gossip code."""
    bare = {"run.name": "game", "algorithm": {"name": ""}, "graph": {"name": ""}, "record": {}}
    return spec.replace(**bare, feedback=None, question=None, gossip=None).digest()


def _concluded(
    entries: Entries, done: _Playing, folder: ComparisonFolder, hosts: int | None, *, figures: bool
) -> Comparison:
    """Read the finished runs and write the results."""
    outcomes: list[Outcome] = []
    standings: list[Standing] = []
    means: list[MeanCurves] = []
    for contestant in entries.contestants:
        played = [game for game in done.games if game.label == contestant.label and game.name not in done.failures]
        read = [review(Run.open(game.folder), game.label, done.optima.get(_functions(game.spec))) for game in played]
        if read:
            ended, curves, sent = zip(*read, strict=True)
            outcomes += ended
            standings.append(standing(contestant, ended))
            means.append(MeanCurves.from_runs(contestant, curves, sent))
    found = Comparison(folder.path, tuple(standings), tuple(outcomes), done.failures, tuple(done.notes))
    folder.write({**found.tables(), "optima": done.optima}, [asdict(each) for each in outcomes])
    if means and figures:
        draw(means, folder.path, computed=not hosts)
    return found
