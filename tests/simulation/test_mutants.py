"""Planted bugs are seen: each within twenty harsh worlds, all of which go well without it.

Bugs in what becomes of lost hosts are planted where a game goes on without their agents.
"""

import pytest
from tests.simulation import host_mutants, loss_mutants  # noqa: F401 - plants them
from tests.simulation.mutants import LOSING, MUTANTS
from tests.simulation.world import Wrong, run

from slaternet_coordinator.engine.rules import Policy

pytestmark = pytest.mark.slow

SEEDS = range(20)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_seen(name: str) -> None:
    with MUTANTS[name](), pytest.raises(Wrong):
        play(Policy.LEAVE if name in LOSING else Policy.WAIT)


@pytest.mark.parametrize("policy", [Policy.WAIT, Policy.LEAVE])
def test_nothing_is_seen_where_no_bug_is_planted(policy: Policy) -> None:
    play(policy)


def play(policy: Policy) -> None:
    for seed in SEEDS:
        run(seed, harsh=True, policy=policy)


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) - len(LOSING) >= 12
    assert len(LOSING) >= 6
