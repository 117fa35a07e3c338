"""Who has been away for too long, by the clock of a coordinator that may have slept."""

import pytest
from tests.support.coordinator_games import HOSTS, Play

from slaternet_coordinator.shell.monitor import AbsenceMonitor


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watchman:
    """A monitor over a game of two hosts, and what it has led to."""

    def __init__(self, *, forgiving: bool = False) -> None:
        self.clock = Clock()
        self.play = Play().begin()
        self.given_up: list[str] = []
        self.missed: list[str] = []
        self._forgiving = forgiving
        self.monitor = AbsenceMonitor(
            self.clock,
            60.0,
            self.play.coordinator.members,
            give_up=self._give_up,
            warn=lambda process, kind, sentence: self.missed.append(sentence),
        )
        for name in HOSTS:
            self.monitor.note_contact(name)

    def _give_up(self, name: str) -> bool:
        self.given_up.append(name)
        self.play.register[name].lost = not self._forgiving
        return not self._forgiving

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and look as often as one should."""
        for _ in range(round(seconds / self.monitor.step)):
            self.clock.now += self.monitor.step
            self.monitor.look()


def test_who_is_away_for_too_long_is_given_up_once() -> None:
    watchman = Watchman()
    watchman.play.close("a")

    watchman.pass_by(59)
    assert watchman.given_up == []
    watchman.pass_by(100)

    assert watchman.given_up == ["a"]
    assert watchman.missed == []


def test_who_is_heard_before_its_deadline_has_all_its_time_again() -> None:
    watchman = Watchman()
    watchman.play.close("a")
    watchman.pass_by(59)

    watchman.monitor.note_contact("a")

    watchman.pass_by(59)
    assert watchman.given_up == []
    watchman.pass_by(1)
    assert watchman.given_up == ["a"]


@pytest.mark.parametrize(("within", "seconds"), [(15.0, 60.0), (90.0, 90.0)])
def test_who_was_there_before_the_coordinator_has_time_to_come_back(within: float, seconds: float) -> None:
    watchman = Watchman()
    watchman.play.close("a")
    watchman.monitor.expect("a", within)

    watchman.pass_by(seconds - 1)
    assert watchman.given_up == []
    watchman.pass_by(1)

    assert watchman.given_up == ["a"]


def test_whose_stream_is_open_is_not_away_however_little_it_says() -> None:
    watchman = Watchman()

    watchman.pass_by(500)

    assert watchman.given_up == []


def test_one_that_was_silent_on_its_stream_is_away_from_when_it_was_heard_last() -> None:
    watchman = Watchman()
    watchman.pass_by(45)
    watchman.play.close("a")

    watchman.pass_by(14)
    assert watchman.given_up == []
    watchman.pass_by(1)

    assert watchman.given_up == ["a"]


def test_what_the_coordinator_has_slept_through_is_nobodys_fault() -> None:
    watchman = Watchman()
    watchman.clock.now += 3600
    for name in HOSTS:
        watchman.play.close(name)
    watchman.monitor.look()

    watchman.pass_by(55)
    assert watchman.given_up == []
    watchman.pass_by(5)
    assert watchman.given_up == list(HOSTS)


def test_one_that_is_waited_for_all_the_same_is_named_once_each_time_it_is_away() -> None:
    watchman = Watchman(forgiving=True)
    watchman.play.close("b")

    watchman.pass_by(200)
    assert watchman.missed == ["b has been away for 60 s; the game waits for it"]

    watchman.monitor.note_contact("b")
    watchman.pass_by(200)
    assert watchman.missed == ["b has been away for 60 s; the game waits for it"] * 2


@pytest.mark.parametrize(("longest", "step"), [(60.0, 1.0), (1.0, 0.125)])
def test_it_looks_often_enough(longest: float, step: float) -> None:
    play = Play()

    monitor = AbsenceMonitor(Clock(), longest, play.coordinator.members, give_up=lambda _: True, warn=print)

    assert monitor.step == step
