import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import BadSpec
from slaternet.model import Departure
from slaternet.spec import Spec

AGENTS = 6
TEXT = """
[run]
agents = 6
rounds = 20
dimension = 2
[set]
kind = "box"
lower = -1.0
upper = 1.0
[algorithm]
name = "zhang2024"
[graph]
name = "paper"
[adversary]
plugin = "linear-regression"
"""
PARTINGS = """
[[departures]]
round = 5
agents = [4, 1]
[[departures]]
round = 9
agents = [0]
"""


@given(st.dictionaries(st.integers(0, AGENTS - 1), st.integers(2, 9)), st.integers(1, 10))
def test_who_plays_a_round_is_who_has_not_left_before_it(ends: dict[int, int], round: int) -> None:
    departures = [Departure(end, np.array([i])) for i, end in ends.items()]
    attendance = Attendance(AGENTS, departures)

    def players(t: int) -> list[int]:
        return [i for i in range(AGENTS) if ends.get(i, FOREVER) > t]

    assert attendance.players(round).tolist() == players(round)
    for some in ([1, 3, 4], [0], []):
        agents = np.array(some, dtype=np.intp)
        assert attendance.of(agents, round).tolist() == [i for i in some if i in players(round)]
    assert attendance.last(np.array([2, 5])) == max(ends.get(2, FOREVER), ends.get(5, FOREVER)) - 1
    same = [t for t in range(round, 12) if players(t) == players(round)]
    assert min(attendance.until(round), 11) == same[-1]
    assert attendance.full is (not ends)


def test_departures_of_a_spec_survive_its_file_and_are_not_what_a_game_is_known_by() -> None:
    plain, spec = Spec.parse(TEXT, source="a"), Spec.parse(TEXT + PARTINGS, source="a")

    assert [(each.round, each.agents.tolist()) for each in spec.leaving] == [(5, [1, 4]), (9, [0])]
    assert Spec.parse(spec.to_toml(), source="b") == spec
    assert spec.digest() == plain.digest()
    assert "departures" not in plain.to_toml()
    assert plain.departing(spec.leaving).leaving[1].round == 9
    assert spec.departing(()) == plain
    assert spec.departing(spec.leaving) == spec
    assert spec.replace(**{"run.rounds": 30}).departures == spec.departures


@pytest.mark.parametrize(
    ("departures", "sentence"),
    [
        ([(1, [2])], r"a: departures\.0\.round must be at least 2, not 1"),
        ([(5, [])], r"a: departures\.0\.agents must be a list of at least 1, not \[\]"),
        ([(5, [6])], "a: departures name agent 6, and the last agent is 5"),
        ([(5, [-1])], r"a: departures\.0\.agents\.0 must be at least 0, not -1"),
        ([(5, [1]), (7, [2, 1])], "a: departures name an agent twice; it leaves once"),
        ([(7, [1]), (5, [2])], "a: departures must stand in ascending rounds, one for each round"),
        ([(5, [1]), (5, [2])], "a: departures must stand in ascending rounds, one for each round"),
        ([(5, [0, 1, 2]), (6, [3, 4, 5])], "a: departures leave nobody in the game; at least one agent stays"),
    ],
)
def test_departures_that_cannot_be_are_refused(departures: list[tuple[int, list[int]]], sentence: str) -> None:
    text = TEXT + "".join(f"[[departures]]\nround = {round}\nagents = {agents}\n" for round, agents in departures)

    with pytest.raises(BadSpec, match=f"^{sentence}$"):
        Spec.parse(text, source="a")


def test_a_key_that_a_departure_does_not_have_is_named() -> None:
    with pytest.raises(BadSpec, match=r"departures\.0\.agent is not a key of \[departures\]; did you mean \W*agents"):
        Spec.parse(TEXT + "[[departures]]\nround = 5\nagents = [1]\nagent = 2\n", source="a")
