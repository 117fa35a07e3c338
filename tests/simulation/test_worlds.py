"""Whatever goes wrong in a world, its game ends, in the bits of its reference, and nothing wrong is ever seen."""

import pytest
from tests.simulation.outcome import Outcome
from tests.simulation.seeds import STORIES
from tests.simulation.world import run

from slaternet_coordinator.engine.rules import Policy

QUICK = range(0, 20, 5)
CHUNK = 50
MANY = range(QUICK.stop, QUICK.stop + 1000, CHUNK)


@pytest.mark.parametrize("first", QUICK)
def test_a_game_ends_in_the_same_bits_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + QUICK.step):
        run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", MANY)
def test_many_games_end_in_the_same_bits_whatever_goes_wrong(first: int) -> None:
    outcomes = [run(seed) for seed in range(first, first + CHUNK)]

    assert sum(outcome.crashes for outcome in outcomes) > CHUNK
    waiting = [outcome for outcome in outcomes if outcome.losses.policy is Policy.WAIT]
    assert max(outcome.heal_seconds for outcome in waiting) <= 10.0
    assert sum(outcome.faults["lost hosts"] for outcome in outcomes) > 0


@pytest.mark.parametrize(("policy", "what"), [(Policy.LEAVE, "departures"), (Policy.REPLACE, "replacements")])
def test_hosts_are_lost_in_worlds_that_go_on_without_them(policy: Policy, what: str) -> None:
    # not in one that is named: which way a seed's world goes changes with every step of the product
    assert any(run(seed, policy=policy).faults[what] for seed in range(10))


@pytest.mark.parametrize("seed", STORIES)
def test_what_went_wrong_once_does_not_again(seed: str) -> None:
    number, *options = seed.split()
    policy = Policy(options[-1]) if "--policy" in options else None
    run(int(number), harsh="--harsh" in options, policy=policy)


def test_a_seed_tells_the_same_story_every_time() -> None:
    first, second = story(3), story(3)

    assert first == second
    assert len(first[1]) > 100


def story(seed: int) -> tuple[Outcome, list[str]]:
    told: list[str] = []
    outcome = run(seed, told.append)
    return outcome, [line for line in told if "/slaternet-world-" not in line]
