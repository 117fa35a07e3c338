"""Planted bugs are seen: each within twenty harsh worlds, all of which go well without it.

Bugs in what becomes of lost hosts are planted where a game goes on without their agents.
"""

import pytest
from tests.simulation import code_mutants, host_mutants, loss_mutants  # noqa: F401 - plants them
from tests.simulation.mutants import IN_CODES, LOSING, MUTANTS
from tests.simulation.world import Wrong, run

from slaternet_coordinator.engine.rules import Policy

pytestmark = pytest.mark.slow

SEEDS = range(20)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_seen(name: str) -> None:
    with MUTANTS[name](), pytest.raises(Wrong):
        play(Policy.LEAVE if name in LOSING else Policy.WAIT, coded=name in IN_CODES)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("policy", [Policy.WAIT, Policy.LEAVE])
def test_nothing_is_seen_where_no_bug_is_planted(policy: Policy, coded: bool) -> None:
    play(policy, coded=coded)


def play(policy: Policy, *, coded: bool) -> None:
    for seed in SEEDS:
        run(seed, harsh=True, policy=policy, coded=coded)


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) - len(LOSING) >= 12
    assert len(LOSING) >= 6
    assert len(IN_CODES) >= 4
