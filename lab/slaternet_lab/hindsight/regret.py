"""Regret of a run: its cumulative loss against the best fixed decision in hindsight, along the rounds.

Two further measures of violation stand beside Net-CCV, which metrics.csv holds; the three are never mixed:

    tolerant   (1/n) sum_i || [sum_t g_t(x_{i,t})]_+ ||       slack of one round pays for another (Mahdavi, Cao)
    L1         sum_t sum_i sum_s [g_{s,t}(x_{i,t})]_+         entries, not norms, and not divided by n (Yuan)

with the stacked g_t of all agents in both.
"""

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec, SlaternetError
from slaternet.model import Array
from slaternet.spec import Spec
from slaternet.storage.disk import replace_file
from slaternet_adversary.plugin.makers import open_plugin
from slaternet_lab.functions.replay import replay
from slaternet_lab.hindsight.comparator import programmes
from slaternet_lab.hindsight.programme import Optimum
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import resolve

COLUMNS = ("round", "optimum", "regret", "residual", "slack", "tolerant_violation", "l1_violation")
"""Of regret.csv."""

Watch = Callable[[str, int, int], None]
"""Receives progress: the stage, how much of it is done, and its total."""

_BLOCK_BYTES = 64 << 20
_SAME = 1e-9
"""Relative difference of two sums of the same losses by rounding."""
_ACCURATE = 1e-6
"""Residual of an optimum that needs no remark."""


@dataclass(frozen=True)
class Regret:
    """The regret curve of a run: one entry per prefix of the game, the last is all of it."""

    rounds: NDArray[np.int64]
    optima: tuple[Optimum, ...]
    regret: Array
    """Net-Reg of each prefix."""
    tolerant_violation: Array
    """NaN where decisions are not known."""
    l1_violation: Array
    notes: tuple[str, ...] = ()
    """Values that are not known, or not accurately, and the reason."""

    def table(self) -> list[tuple[float, ...]]:
        """Return a row of `COLUMNS` per prefix."""
        return [
            (int(t), best.value, float(regret), best.certificate.residual, best.slack, float(tolerant), float(l1))
            for t, best, regret, tolerant, l1 in zip(
                self.rounds, self.optima, self.regret, self.tolerant_violation, self.l1_violation, strict=True
            )
        ]

    def save(self, folder: Path) -> list[Path]:
        """Write regret.csv and regret.png; return their paths."""
        from slaternet_lab.runs.plots import draw_regret

        table, figure = folder / "regret.csv", folder / "regret.png"
        rows = [COLUMNS, *(["" if np.isnan(cell) else cell for cell in row] for row in self.table())]
        replace_file(table, "".join(",".join(map(str, row)) + "\n" for row in rows).encode())
        draw_regret(self.rounds, self.regret, figure)
        return [table, figure]


def regret(run: Run, *, points: int = 20, watch: Watch = lambda what, done, total: None) -> Regret:
    """Return the regret of a run, finished or not, at `points` log-spaced prefixes of the rounds it has.

    BadSpec where it is undefined or cannot be known: no point is feasible in all rounds, rounds are not scored, the
    adversary's functions have no gradients or are not those of the run any more.
    """
    prefixes = log_spaced(_scored(run), points)
    decisions, notes = _decisions(run, watch)
    rounds = int(prefixes[-1])
    optima, at_centre, centre = [], 0.0, run.spec.feasible_set().centre
    for programme in programmes(run.spec, prefixes, decisions, lambda t: watch("offline optima", t, rounds)):
        optima.append(programme.optimum())
        at_centre = programme.value(centre)
    _check_functions(run, rounds, at_centre)
    worst = max(best.certificate.residual for best in optima)
    if worst > _ACCURATE:
        notes = (*notes, f"optima are known to a relative accuracy of {worst:.0e} only: the residual says where")
    net = run.metrics["cumulative_loss"][prefixes - 1] - [best.value for best in optima]
    tolerant = l1 = np.full(len(prefixes), np.nan)
    if run.spec.departures:
        notes = (*notes, "tolerant and L1 violation are not defined: agents have left, and their constraints with them")
    elif decisions is not None:
        tolerant, l1 = violations(run.spec, decisions, prefixes, watch)
    return Regret(prefixes, tuple(optima), net, tolerant, l1, notes)


def log_spaced(rounds: int, points: int) -> NDArray[np.int64]:
    """Return at most `points` distinct prefixes, from 1 to `rounds` in equal ratios as far as whole numbers allow."""
    if points < 2:
        return np.array([rounds])
    return np.unique(np.rint(np.geomspace(1, rounds, points)).astype(np.int64))


def violations(spec: Spec, decisions: Array, prefixes: NDArray[np.int64], watch: Watch) -> tuple[Array, Array]:
    """Return the tolerant and the L1 violation of each prefix, from decisions (T, n, p)."""
    n, rounds = spec.run.agents, int(prefixes[-1])
    place = {int(t): i for i, t in enumerate(prefixes)}
    tolerant, l1 = np.zeros(len(prefixes)), np.zeros(len(prefixes))
    for first, last in _blocks(spec):
        total: Array | float = 0.0
        excess = 0.0
        for functions in replay(spec, rounds, decisions):
            values = functions.constraints(decisions[functions.round - 1, first:last])
            total = total + values
            np.maximum(values, 0.0, out=values)
            excess += float(values.sum())
            if functions.round in place:
                clipped = np.maximum(total, 0.0)
                tolerant[place[functions.round]] += float(np.sqrt(np.sum(clipped * clipped, axis=1)).sum()) / n
                l1[place[functions.round]] += excess
            watch("violations", first * rounds + functions.round * (last - first), n * rounds)
    return tolerant, l1


def _blocks(spec: Spec) -> list[tuple[int, int]]:
    """Cut the agents so that all constraints at a block's decisions fit into bounded memory."""
    n = spec.run.agents
    with open_plugin(spec) as (plugin, _):
        rows = plugin.constraints * n
    step = max(1, _BLOCK_BYTES // (8 * max(1, rows)))
    return [(first, min(first + step, n)) for first in range(0, n, step)]


def _scored(run: Run) -> int:
    every = run.spec.record.score_every
    if every > 1:
        raise BadSpec(
            f"record.score_every = {every} left rounds without a score, and regret needs every round scored; "
            "play again with --set record.score_every=1"
        )
    if not run.rounds:
        raise BadSpec(f"{run.folder} holds no scored round yet; wait for one, or name another run")
    return run.rounds


def _decisions(run: Run, watch: Watch) -> tuple[Array | None, tuple[str, ...]]:
    """Return the decisions as recorded, or else those of a second play of the spec with the same digest."""
    if run.decisions is not None:
        return run.decisions, ()
    # the first rounds do not depend on the length of the game, unless the algorithm uses its horizon
    for rounds in sorted({run.rounds, run.spec.run.rounds or run.rounds}):
        try:
            decisions, digest = _played_again(run, rounds, watch)
        except SlaternetError as error:
            return None, (f"tolerant and L1 violation are not known: the game cannot be played again here, {error}",)
        if digest == run.metrics["digest"][-1]:
            return decisions, ()
    return None, (
        "tolerant and L1 violation are not known: decisions were not recorded, and playing the spec again gives "
        "another digest; play it with record.decisions = true",
    )


def _played_again(run: Run, rounds: int, watch: Watch) -> tuple[Array, str]:
    """Return the decisions of the spec, simulated for so many rounds, and the digest where the run's metrics end."""
    from slaternet_lab.games.simulation import Simulation

    unscored = rounds + 1
    # a spec of an older version has no [question]
    spec = run.spec if run.spec.question is not None else resolve(run.spec, run.folder)
    spec = spec.replace(**{"run.rounds": rounds, "record.decisions": True, "record.score_every": unscored})
    with tempfile.TemporaryDirectory(prefix="slaternet-") as folder:
        game = Simulation(spec, Path(folder), lambda t, *scores: watch("decisions", t, rounds))
        with closing(game):
            game.play()
        again = Run.open(folder)
        if again.decisions is None:
            raise AssertionError("decisions are recorded where the spec says so")
        return again.decisions[: run.rounds], str(again.metrics["digest"][run.rounds - 1])


def _check_functions(run: Run, rounds: int, here: float) -> None:
    """Refuse functions that have changed: the baseline's loss in the run and here must agree."""
    then = float(run.metrics["zero_loss"][rounds - 1])
    if abs(here - then) > _SAME * max(1.0, abs(then)):
        raise BadSpec(
            f"the functions of adversary.plugin = {run.spec.adversary.plugin} are not those of the run any more (its "
            f"baseline lost {then:.9g}, now {here:.9g}); restore the plugin's code, or play the game again"
        )
