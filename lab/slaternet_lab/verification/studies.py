"""`slaternet verify`: test the theorems' rates by play.

The schedules of Theorems 1 to 4 do not know the horizon, so a game of T rounds begins with the game of T/2 rounds, to
the bit: one game per seed gives the values at all horizons T/16, T/8, T/4, T/2, T.
"""

import contextlib
import csv
import io
import json
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import Spec
from slaternet.storage.disk import replace_file
from slaternet_adversary.shell.run_folder import new_folder
from slaternet_lab.assumptions.sampling import QUICK, measure
from slaternet_lab.comparison.entries import Contestant, enter, read_entries
from slaternet_lab.games.pool import Rounds, Task, cores, perform
from slaternet_lab.games.progress import ProgressDisplay
from slaternet_lab.games.simulation import simulate
from slaternet_lab.specs.resolve import as_given, read
from slaternet_lab.specs.shipped import find
from slaternet_lab.verification.rates import Horizons
from slaternet_lab.verification.theorems import ALGORITHM, Measured, TheoremVerdict, check_algorithm, claims, rate

SEEDS = 10
"""The default number of seeds."""
THEOREMS = (1, 2, 3, 4)
_RIVAL = "yi2023+schedule=convex+c={c}+kappa={c}+alpha0={alpha0}"
"""What Algorithm 1 is compared with, with the same primal steps; its rates are those without Slater's condition."""
_UNUSED = {
    "run.name": "say with --out where the results go",
    "record.decisions": "play the game with `slaternet simulate` for its decisions",
}
"""Settings that decide what a run folder is called or holds, and where to go for that."""
_FEW = 10
_OCTAVES = 4
"""The shortest horizon is T / 2^4."""


@dataclass(frozen=True)
class Series:
    """A contestant's cumulative violation and regret at the horizons, (seeds, h); regret of Algorithm 1 alone."""

    label: str
    violation: Array
    regret: Array | None


@dataclass(frozen=True)
class Study:
    """One theorem on one game: its findings, and the values of all contestants."""

    theorem: int
    game: str
    horizons: Horizons
    findings: tuple[TheoremVerdict, ...]
    remarks: tuple[str, ...]
    series: tuple[Series, ...]
    """Algorithm 1 first."""

    def table(self) -> dict[str, Any]:
        """Return everything in plain lists and tables, for JSON."""

        def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in pairs}

        return asdict(self, dict_factory=plain)


@dataclass(frozen=True)
class _Plan:
    """What is played for one theorem."""

    theorem: int
    game: str
    horizons: Horizons
    contestants: tuple[Contestant, ...]

    def tasks(self) -> Iterator[Task]:
        for contestant in self.contestants:
            own = contestant is self.contestants[0]
            for spec in contestant.specs:
                yield Task(self.name(contestant, spec), scores_at, (spec, self.horizons.tolist(), own))

    def name(self, contestant: Contestant, spec: Spec) -> str:
        return f"Theorem {self.theorem}, {contestant.label}, seed {spec.run.seed}"


def verify(
    what: str | None = None,
    theorem: int | None = None,
    *,
    seeds: int = SEEDS,
    settings: Sequence[str] = (),
    jobs: int | None = None,
    out: Path | None = None,
    console: Console | None = None,
) -> tuple[Path, list[Study]]:
    """Play the shipped games of all theorems, or a spec for one of them; return the folder and the studies.

    verify("mine.toml", 2, seeds=20, settings=["run.rounds=8192"])

    Raises what the first game that failed raised.
    """
    if theorem is not None and theorem not in THEOREMS:
        raise BadSpec(f"--theorem {theorem} is not a theorem of the paper; choose 1, 2, 3 or 4")
    if what is not None and theorem is None:
        raise BadSpec(f"--theorem is missing; say which theorem {what} is to test, for example --theorem 2")
    numbers = [theorem] if theorem else THEOREMS
    plans = [_plan(number, what or f"theorem{number}", seeds, settings) for number in numbers]
    folder = out or new_folder(plans[0].contestants[0].specs[0].replace(**{"run.name": "verify"}))
    folder.mkdir(parents=True, exist_ok=True)
    results = _play([task for plan in plans for task in plan.tasks()], jobs, console)
    studies = [_study(plan, results) for plan in plans]
    _write(studies, folder)
    return folder, studies


def _check_game(spec: Spec) -> None:
    if spec.record.score_every != 1:
        raise BadSpec("record.score_every must be 1, because rates are fitted through every round's score; correct it")
    if spec.departures:
        raise BadSpec("departures must be none, because the theorems speak of games that all agents play; remove them")
    if not spec.gossip.plain:
        raise BadSpec("[gossip] must be left out, because the theorems speak of rows as they are; remove it")


def _plan(theorem: int, game: str, seeds: int, settings: Sequence[str]) -> _Plan:
    """Return the contestants of a theorem, resolved and checked before anything is played.

    The first plays the spec as it is: a setting is tested, or refused by name.
    """
    if seeds < 2:
        raise BadSpec("--seeds must be at least 2, for an interval over seeds; the default is 10")
    for key in (setting.partition("=")[0].strip() for setting in settings):
        if key in _UNUSED:
            raise BadSpec(f"{key} changes nothing here, because `verify` keeps no run folder; {_UNUSED[key]}")
    check_algorithm(theorem, as_given(find(game), settings).algorithm)
    written, base = read(game, settings)
    own: tuple[Contestant, ...] = (enter(ALGORITHM, "", written.with_drawn(secrets.randbits(63)), base, seeds),)
    spec = own[0].specs[0]
    rounds = spec.run.rounds or 0
    if rounds % (1 << _OCTAVES) or rounds < 1 << (_OCTAVES + 1):
        raise BadSpec(f"run.rounds must be a multiple of {1 << _OCTAVES}, for its horizons, not {rounds}")
    _check_game(spec)
    if spec.adversary.seed is not None:
        settings = [*settings, f"adversary.seed={spec.adversary.seed}"]  # rivals play on the same functions
    horizons = np.array([rounds >> octave for octave in range(_OCTAVES, -1, -1)])
    if theorem == 2:
        slope = measure(spec, QUICK).constraint_slope
        if not slope:
            raise BadSpec("Theorem 2 is about violation, and no constraint of this game changes; name another game")
        largest = 1.0 / (4.0 * (spec.run.dimension**2 + 1) * slope * slope)  # gamma_0 that the theorems allow
        alpha0 = spec.algorithm.numbers.get("alpha0", 1.0)
        rivals = [_RIVAL.format(c=rate(spec), alpha0=alpha0), f"zhang2024+gamma0={largest:.3g}"]
        own += read_entries(game, rivals, seeds=seeds, settings=settings).contestants
    return _Plan(theorem, game, horizons, own)


def _play(tasks: Sequence[Task], jobs: int | None, console: Console | None) -> dict[str, dict[str, Any]]:
    """Run all tasks and return the result of each by name; raise the first error."""
    reached = dict.fromkeys((task.name for task in tasks), 0)
    results: dict[str, dict[str, Any]] = {}
    rounds = sum(task.arguments[1][-1] for task in tasks)

    def advance(name: str, round: int) -> None:
        reached[name] = round
        progress.show(sum(reached.values()), f"{len(results)}/{len(tasks)} runs", name)

    with (
        tempfile.TemporaryDirectory(prefix="slaternet-verify-") as scratch,
        ProgressDisplay(rounds, console or Console(quiet=True)) as progress,
        contextlib.closing(perform(tasks, jobs or cores(), Path(scratch) / "log", advance)) as outcomes,
    ):
        for outcome in outcomes:
            task, error = outcome.task, outcome.error
            if error:
                raise type(error)(f"{task.name}: {error}")
            results[task.name] = outcome.result
            advance(task.name, task.arguments[1][-1])
    return results


def scores_at(spec: Spec, horizons: list[int], with_optima: bool, rounds: Rounds) -> dict[str, list[float] | None]:
    """Simulate a game and return its cumulative scores at each horizon; its folder is not kept."""
    from slaternet_lab.hindsight.comparator import optima

    with tempfile.TemporaryDirectory(prefix="slaternet-") as folder:
        metrics = simulate(spec, out=Path(folder), progress=rounds, figures=False).metrics
    at = [horizon - 1 for horizon in horizons]
    return {
        "loss": metrics["cumulative_loss"][at].tolist(),
        "violation": metrics["cumulative_violation"][at].tolist(),
        "optima": [each.value for each in optima(spec, horizons)] if with_optima else None,
    }


def _study(plan: _Plan, results: dict[str, dict[str, Any]]) -> Study:
    series = []
    for contestant in plan.contestants:
        found = [results[plan.name(contestant, spec)] for spec in contestant.specs]
        loss, violation = (np.array([each[name] for each in found]) for name in ("loss", "violation"))
        optima = [each["optima"] for each in found]
        series.append(Series(contestant.label, violation, None if optima[0] is None else loss - np.array(optima)))
    ours, spec = series[0], plan.contestants[0].specs[0]
    measured = {"violation": Measured.from_values(plan.horizons, ours.violation)}
    if ours.regret is not None:
        measured["regret"] = Measured.from_values(plan.horizons, ours.regret)
    findings = tuple(claim.finding(measured[claim.quantity]) for claim in claims(plan.theorem, spec))
    remarks = tuple(_remark(plan.horizons, ours, other) for other in series[1:])
    if len(ours.violation) < _FEW:
        remarks += (f"only {len(ours.violation)} seeds: intervals over fewer than {_FEW} say little",)
    return Study(plan.theorem, plan.game, plan.horizons, findings, remarks, tuple(series))


def _remark(horizons: Horizons, ours: Series, other: Series) -> str:
    """Return the result of another contestant in the same game, in words."""
    fit = Measured.from_values(horizons, other.violation).fit
    grows = f"grows as T^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})" if fit else "has no exponent"
    last, own = other.violation[:, -1].mean(), ours.violation[:, -1].mean()
    ratio = f"{last / own:.3g} times that of {ours.label}"
    return f"{other.label}: violation {grows}; at T = {horizons[-1]} it is {last:.4g}, {ratio}"


def _write(studies: Sequence[Study], folder: Path) -> None:
    from slaternet_lab.verification.figures import draw

    replace_file(folder / "verify.json", (json.dumps([each.table() for each in studies], indent=2) + "\n").encode())
    table = io.StringIO(newline="")
    rows = csv.writer(table)
    rows.writerow(("theorem", "algorithm", "run", "rounds", "violation", "regret"))
    for study in studies:
        for series in study.series:
            for (run, column), violation in np.ndenumerate(series.violation):
                regret = "" if series.regret is None else series.regret[run, column]
                rows.writerow((study.theorem, series.label, run + 1, study.horizons[column], violation, regret))
        draw(study, folder / f"theorem{study.theorem}.png")
    replace_file(folder / "verify.csv", table.getvalue().encode())
