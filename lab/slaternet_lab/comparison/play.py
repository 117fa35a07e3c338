"""`slaternet compare`: algorithms x seeds x a grid of settings on the same functions and graphs, and how they fared."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from slaternet.errors import BadSpec, SlaternetError
from slaternet.spec import Spec
from slaternet_adversary.results import new_folder
from slaternet_lab.comparison.contestants import Field, enter
from slaternet_lab.comparison.figures import draw
from slaternet_lab.comparison.folder import ComparisonFolder, Game
from slaternet_lab.comparison.standings import Course, Outcome, Standing, review, standing
from slaternet_lab.folder import Run
from slaternet_lab.workers.pool import Advanced, Done, Event, Failed, Task, cores, perform
from slaternet_lab.workers.tally import Tally

SEEDS = 5
"""Seeds that are played unless the user says how many."""


@dataclass(frozen=True)
class Comparison:
    """How a comparison ended; `failures` are the runs that could not be played, and why."""

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
    console: Console | None = None,
) -> Comparison:
    """Play algorithms on the same functions and graphs, with the spec's seed and the next ones.

    compare("paper", algorithms=["zhang2024", "yi2023+dual_linearised=false"], grid=["algorithm.delta0=0.01,0.1"])

    Without algorithms: the paper's comparison. `settings` are those of `load`. Games are simulated in `jobs` processes,
    or with `hosts` played over gRPC, one after another. In a folder `out` of the same comparison finished runs are
    kept, unless forced. Progress is shown on the console. BadSpec, one sentence, before anything is played.
    """
    field = enter(what, algorithms, seeds=seeds, grid=grid, settings=settings)
    path = out or _new_folder(field.contestants[0].specs[0])
    games = [
        Game(each.label, spec, path / each.folder / f"seed-{spec.run.seed}")
        for each in field.contestants
        for spec in each.specs
    ]
    _check_hosts(hosts, games)
    folder = ComparisonFolder(path, games, hosts)
    stage = _Stage(games, folder.claim(force=force), keep=not force, console=console or Console(quiet=True))
    if field.left_out:
        stage.note(_left_out(field))
    try:
        stage.play(jobs or cores(), hosts, path / "log")
        return _concluded(field, stage, folder)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted after {stage.done} of {len(games)} runs; the same command with --out {path} goes on there"
        ) from None


class _Stage:
    """The games of a comparison while they are played."""

    def __init__(self, games: Sequence[Game], optima: dict[str, float], *, keep: bool, console: Console) -> None:
        self.games = games
        self.optima = optima
        """The loss of the best fixed decision, by functions."""
        self.failures: dict[str, SlaternetError] = {}
        self.notes: list[str] = []
        self._console = console
        self._todo = [game for game in games if not (keep and game.finished())]
        self._rounds = {game.name: game.rounds for game in games} | {game.name: 0 for game in self._todo}
        self.done = len(games) - len(self._todo)

    def play(self, jobs: int, hosts: int | None, log: Path) -> None:
        """Play what is not finished, and find the optima that are not known."""
        if self.done:
            self._say(f"{self.done} finished runs are kept")
        todo = sorted(self._todo, key=lambda game: game.spec.run.seed)
        tasks = [] if hosts else [_simulation(game) for game in todo]
        functions = {_functions(game.spec): game.spec for game in self.games if game.spec.record.score_every == 1}
        tasks += [_optimum(key, spec) for key, spec in functions.items() if key not in self.optima]
        with Tally(len(self.games), sum(game.rounds for game in self.games), self._console) as tally:
            self._tally = tally
            tally.update(self.done, sum(self._rounds.values()))
            if hosts:
                for game in todo:
                    _play(game, hosts, self._hear)
            for event in perform(tasks, jobs, log):
                self._hear(event)

    def note(self, sentence: str) -> None:
        """Tell the user something, once, and remember it for the file."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            self._say(sentence)

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, soft_wrap=True)

    def _hear(self, event: Event) -> None:
        name, note = event.task.name, event.task.name
        match event:
            case Advanced(_, round):
                self._rounds[name] = round
            case Done(_, result) if name not in self._rounds:
                self.optima[name], note = result["value"], "offline optima"
            case Failed(_, error) if name not in self._rounds:
                self.note(f"the regret is not known: {error}")
            case Done():
                self.done += 1
                self._rounds[name] = self._length(name)
            case Failed(_, error):
                self.failures[name] = error
                self._rounds[name], note = self._length(name), f"{name} failed"
        self._tally.update(self.done, sum(self._rounds.values()), note)

    def _length(self, name: str) -> int:
        return next(game.rounds for game in self.games if game.name == name)


class _Watcher:
    """Hears of a game over the network what a worker says of a simulated one."""

    def __init__(self, task: Task, hear: Callable[[Event], None]) -> None:
        self._task = task
        self._hear = hear

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Pass on how far the game has come."""
        del loss, violation, note
        self._hear(Advanced(self._task, round))


def _play(game: Game, hosts: int, hear: Callable[[Event], None]) -> None:
    """Play a game over the network."""
    from slaternet_lab.network import play

    task = Task(game.name, {})
    try:
        play(game.spec, hosts=hosts, out=game.folder, force=True, progress=_Watcher(task, hear), figures=False)
    except SlaternetError as error:
        hear(Failed(task, error))
        return
    if not game.finished():
        raise KeyboardInterrupt  # the first Ctrl-C ends a game after the round it is in
    hear(Done(task, {}))


def _simulation(game: Game) -> Task:
    return Task(game.name, {"task": "play", "spec": game.spec.to_toml(), "folder": str(game.folder)})


def _optimum(key: str, spec: Spec) -> Task:
    return Task(key, {"task": "optimum", "spec": spec.to_toml()})


def _functions(spec: Spec) -> str:
    """Return the digest of what decides a game's functions: all but who plays, on which graph."""
    bare = {"run.name": "game", "algorithm": {"name": ""}, "graph": {"name": ""}, "feedback": None, "record": {}}
    return spec.replace(**bare).digest()


def _concluded(field: Field, stage: _Stage, folder: ComparisonFolder) -> Comparison:
    """Read the finished runs, and write what they say."""
    outcomes: list[Outcome] = []
    standings: list[Standing] = []
    courses: list[Course] = []
    for contestant in field.contestants:
        played = [game for game in stage.games if game.label == contestant.label and game.name not in stage.failures]
        read = [review(Run.open(game.folder), game.label, stage.optima.get(_functions(game.spec))) for game in played]
        if read:
            outcomes += (each for each, _ in read)
            standings.append(standing(contestant, [each for each, _ in read]))
            courses.append(Course.of(contestant.label, [curves for _, curves in read]))
    found = Comparison(folder.path, tuple(standings), tuple(outcomes), stage.failures, tuple(stage.notes))
    folder.write({**found.tables(), "optima": stage.optima}, [asdict(each) for each in outcomes])
    if courses:
        draw(courses, folder.path)
    return found


def _left_out(field: Field) -> str:
    """Say which keys of the spec some contestants do not take."""
    keys = (f"{key} ({', '.join(labels)})" for key, labels in field.left_out.items())
    return f"left out for those who do not take it: {', '.join(keys)}"


def _check_hosts(hosts: int | None, games: Sequence[Game]) -> None:
    agents = min(game.spec.run.agents for game in games)
    if hosts is not None and hosts > agents:
        raise BadSpec(f"--hosts {hosts} is more than the {agents} agents of a game; every host needs an agent")


def _new_folder(spec: Spec) -> Path:
    named = spec.run.model_copy(update={"name": f"{spec.run.name}-compare"})
    return new_folder(spec.model_copy(update={"run": named}))
