"""Games to be audited, and what an audit says of them."""

import asyncio
from importlib.metadata import entry_points
from pathlib import Path

from tests.support.services import playing, small_spec

from slaternet.spec import Spec
from slaternet_lab import Run
from slaternet_lab.audit.report import AuditCheck, AuditReport

T = 12
CHECKS = ["journal", "budgets", "commitments", "graphs", "decisions", "values", "scores", "metrics", "summary"]
ALGORITHMS = sorted(entry.name for entry in entry_points(group="slaternet.algorithms"))
CENTRAL = ("mahdavi2012", "flaxman2005", "zinkevich2003", "yi2023")
PLUGIN = """
import os
from dataclasses import dataclass
import numpy as np
from slaternet_adversary import Adversary

@dataclass
class Bowls:
    shift: float

    def loss(self, agents, points):
        return ((points - self.shift) ** 2).sum(axis=-1)

    def constraint(self, agents, points):
        return points[..., :1] - self.shift

class Adaptive(Adversary):
    constraints, history, rowwise = 1, 2, True

    def __init__(self, game):
        super().__init__(game)

    def play(self, round, past):
        return Bowls(float(np.tanh(past.decisions.sum())) + 0.1 * round)

class Fickle(Adversary):
    constraints, rowwise = 1, True

    def __init__(self, game):
        super().__init__(game)
        self._mood = int.from_bytes(os.urandom(6), "little") / 2**48

    def play(self, round, past):
        return Bowls(self._mood)
"""


async def _play(spec: Spec, folder: Path, hosts: int) -> Run:
    async with playing(spec, folder, hosts=hosts) as game:
        return await game.over()


def play(folder: Path, *settings: str, rounds: int = T, hosts: int = 3) -> Run:
    """Play a game of 6 agents over real gRPC."""
    return asyncio.run(_play(small_spec(*settings, rounds=rounds), folder / "game", hosts))


def of(report: AuditReport, name: str) -> AuditCheck:
    [check] = [each for each in report.checks if each.name == name]
    return check


def differing(report: AuditReport) -> list[str]:
    return [each.name for each in report.checks if each.verdict == "differs"]


def assert_clean(run: Run) -> None:
    report = run.audit()
    assert report.verdict == "ok", report.sentences()
    rounds, agents = run.spec.run.rounds, run.spec.run.agents
    assert rounds is not None
    assert [each.name for each in report.checks] == CHECKS
    assert of(report, "budgets").count == of(report, "decisions").count == rounds * agents
    assert of(report, "commitments").count == of(report, "graphs").count == of(report, "metrics").count == rounds
    assert of(report, "scores").count == rounds // run.spec.record.score_every
    assert of(report, "values").count > 0 or run.spec.algorithm.name == "zero"
    assert (report.rounds, report.digest) == (rounds, run.summary["digest"])
