"""What a shell sees of a game: frozen, and as of one moment."""

import pytest
from tests.support.coordinator_games import Play
from tests.support.seating_games import begun, hold, played

from slaternet.errors import NotSeated
from slaternet.model import Progress
from slaternet_coordinator.engine.events import Lost
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.roster import HostStatus
from slaternet_coordinator.shell.monitor import AbsenceMonitor


def test_a_view_stays_as_it_was_and_cannot_be_changed() -> None:
    play = Play()
    before, nobody = play.coordinator.view, play.coordinator.members()

    play.begin()

    assert (before.phase, before.epoch, before.missing) == (Phase.GATHERING, 0, "the adversary")
    assert nobody == ()
    after = play.coordinator.view
    assert (after.phase, after.epoch, after.missing) == (Phase.PLAYING, 1, "")
    with pytest.raises(AttributeError):
        after.epoch = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        play.coordinator.members()[0].lost = True  # type: ignore[misc]


def test_a_message_that_is_refused_leaves_a_view_of_how_the_game_stands() -> None:
    play = Play()
    play.come("a")
    with pytest.raises(NotSeated):
        play.say("a", Progress(1))

    assert play.coordinator.view.scored == 0
    assert play.coordinator.view.missing == "the adversary"


def test_every_process_is_seen_alone_as_it_is_seen_among_all() -> None:
    for play in (Play(), Play().begin()):
        for name in ("c", "d", "e"):
            play.come(name)
        members = play.coordinator.members()

        assert [play.coordinator.member(each.name) for each in members] == list(members)
        assert play.coordinator.member("stranger") is None


def test_hosts_that_are_away_are_given_up_by_one_look_though_the_seats_move_with_the_first() -> None:
    now = [0.0]
    play = played(begun(), 100)
    seen: list[tuple[HostStatus, ...]] = []

    def members() -> tuple[HostStatus, ...]:
        seen.append(play.coordinator.members())
        return seen[-1]

    def give_up(name: str) -> bool:
        play.coordinator.handle(Lost(name))
        hold(play, a=105, d=105)  # whereupon others have its seats
        member = play.coordinator.member(name)
        return member is not None and member.lost

    monitor = AbsenceMonitor(lambda: now[0], 60.0, members, give_up=give_up, warn=pytest.fail)
    monitor.look()
    play.close("b")
    play.close("c")
    for _ in range(60):
        now[0] += 1
        monitor.look()

    assert [each.name for each in play.coordinator.members() if each.lost] == ["b", "c"]
    assert len(seen) == 61  # one snapshot a look
