"""What the coordinator tells of a game and of its processes."""

from tests.support.coordinator_games import EVE, N, Play

from slaternet.limits import LIMITS
from slaternet.service.metrics import Number
from slaternet_coordinator.shell.metrics import readings


def told(play: Play) -> dict[str, dict[tuple[str, ...], Number]]:
    return {each.metric.name: each.numbers for each in readings(play.coordinator.view, play.coordinator.members())}


def test_before_the_game_begins_nobody_is_a_spare() -> None:
    play = Play()
    play.come("a")

    now = told(play)

    assert [phase for (phase,), is_now in now["slaternet_phase"].items() if is_now] == ["gathering"]
    assert now["slaternet_spares"] == {(): 0}
    assert now["slaternet_rounds_published_total"] == {(): 0}


def test_every_process_has_its_seats_its_round_and_its_stream() -> None:
    play = Play().begin()
    play.come("c")
    play.advance(16)
    play.close("b")

    now = told(play)

    assert [phase for (phase,), is_now in now["slaternet_phase"].items() if is_now] == ["playing"]
    assert now["slaternet_spares"] == {(): 1}
    assert now["slaternet_rounds_published_total"] == {(): 16 + LIMITS.window}
    assert now["slaternet_member_seats"] == {(EVE,): 0, ("a",): N // 2, ("b",): N // 2, ("c",): 0}
    assert now["slaternet_member_round"] == {(EVE,): 16, ("a",): 16, ("b",): 16, ("c",): 0}
    assert now["slaternet_member_connected"] == {(EVE,): 1, ("a",): 1, ("b",): 0, ("c",): 1}
