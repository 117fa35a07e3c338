"""The results of contestants: one outcome per run, means and standard deviations over seeds, and the curves of both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slaternet.model import Array
from slaternet_lab.comparison.entries import Contestant
from slaternet_lab.runs.plots import FIGURES, baseline, thinned
from slaternet_lab.runs.row_bytes import spent
from slaternet_lab.runs.run import Run


@dataclass(frozen=True)
class Outcome:
    """The result of one run; the fields are the columns of comparison.csv."""

    label: str
    seed: int
    cumulative_loss: float
    cumulative_violation: float
    regret: float | None
    """None where no comparator is known."""
    disagreement: float
    """Of the last round that was scored."""
    frames: int
    bytes_sent: int
    gossip_bytes: float | None
    """Of rows, told by the hosts or computed; None where neither is known."""
    seconds: float
    digest: str


@dataclass(frozen=True)
class Spread:
    """A mean over seeds, and the sample standard deviation of one run; None of a single run."""

    mean: float
    std: float | None

    @classmethod
    def from_values(cls, values: Iterable[float]) -> "Spread":
        """Return the spread of some values."""
        array = np.array(list(values))
        return cls(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None)


@dataclass(frozen=True)
class Standing:
    """The results of a contestant over its seeds."""

    label: str
    algorithm: str
    seeds: int
    """Runs that were finished."""
    loss: Spread
    violation: Spread
    regret: Spread | None
    disagreement: Spread
    points: int
    """Points asked about, per agent and round."""
    loss_gradient: bool
    constraint_gradient: bool
    rounds_per_second: float
    plain: bool
    """Whether rows travel as they are."""
    gossip_bytes: Spread | None


@dataclass(frozen=True)
class Curve:
    """A cumulative score over the rounds: mean and standard deviation over seeds, 0 of a single run."""

    rounds: Array
    mean: Array
    deviation: Array


Curves = dict[str, tuple[Array, Array]]
"""Rounds and values of a run's cumulative scores, by column of metrics.csv."""


@dataclass(frozen=True)
class MeanCurves:
    """A contestant's cumulative scores, and those of the baseline that never moves, by column of metrics.csv."""

    label: str
    baseline: str
    """What the baseline does, as `slaternet_lab.runs.plots.baseline` says it."""
    curves: dict[str, Curve]
    sent: Array | None = None
    """Bytes of rows up to each of the rounds of its curves; None where they are not known."""
    plain: bool = True
    """Whether rows travel as they are."""

    @classmethod
    def from_runs(
        cls, contestant: Contestant, runs: Sequence[Curves], sent: Sequence[Array | None] = ()
    ) -> "MeanCurves":
        """Return the means of at least one run, and of the bytes `sent`; all were scored in the same rounds."""
        means = {}
        for column, (rounds, _) in runs[0].items():
            values = np.stack([run[column][1] for run in runs])
            deviation = values.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(values.shape[1])
            means[column] = Curve(rounds, values.mean(axis=0), deviation)
        known = [each for each in sent if each is not None]
        spent = np.mean(known, axis=0) if known and len(known) == len(runs) else None
        spec = contestant.specs[0]
        return cls(contestant.label, baseline(spec), means, spent, spec.gossip.plain)


def review(run: Run, label: str, optimum: float | None) -> tuple[Outcome, Curves, Array | None]:
    """Return the result of a finished run, its curves for a figure, and the bytes of rows up to each round.

    Regret is the loss beyond `optimum`.
    """
    summary, metrics, sent = run.summary, run.metrics, spent(run)
    loss = summary["cumulative_loss"]
    ended = Outcome(
        label,
        run.spec.run.seed,
        loss,
        summary["cumulative_violation"],
        None if optimum is None else loss - optimum,
        float(metrics["disagreement"][np.isfinite(metrics["disagreement"])][-1]),
        int(metrics["frames"].sum()),
        int(metrics["bytes_sent"].sum()),
        None if sent is None else float(sent[-1]),
        summary["seconds"],
        summary["digest"],
    )
    columns = (f"{kind}_{name}" for name, _ in FIGURES for kind in ("cumulative", "zero"))
    return ended, {column: thinned(run, column) for column in columns}, sent


def standing(contestant: Contestant, outcomes: Sequence[Outcome]) -> Standing:
    """Return the results of a contestant over at least one finished run."""
    spec, asked = contestant.specs[0], contestant.feedback
    regrets = [each.regret for each in outcomes if each.regret is not None]
    sent = [each.gossip_bytes for each in outcomes if each.gossip_bytes is not None]
    rounds = spec.run.rounds or 0
    return Standing(
        contestant.label,
        spec.algorithm.name,
        len(outcomes),
        Spread.from_values(each.cumulative_loss for each in outcomes),
        Spread.from_values(each.cumulative_violation for each in outcomes),
        Spread.from_values(regrets) if len(regrets) == len(outcomes) else None,
        Spread.from_values(each.disagreement for each in outcomes),
        asked.points,
        asked.loss_gradient,
        asked.constraint_gradient,
        float(np.mean([rounds / each.seconds for each in outcomes])),
        spec.gossip.plain,
        Spread.from_values(sent) if len(sent) == len(outcomes) else None,
    )
