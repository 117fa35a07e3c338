"""A coordinator dies while a host is given up: its next life goes on with what was kept, and with nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.coordinator_games import EVE, EVE_JOIN, GRAPH, HOST_JOIN, N, Play

from slaternet.errors import BadSpec, Mismatch
from slaternet.limits import LIMITS
from slaternet.model import (
    Checkpointed,
    ControlDown,
    Departure,
    Description,
    Hold,
    Holding,
    Progress,
    Role,
    Seating,
    Topology,
)
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import Effect, Keep, Leave
from slaternet_coordinator.engine.rules import Policy, Rules
from slaternet_coordinator.engine.saved import SavedGame, SavedMember
from slaternet_coordinator.shell.register_db import GameIdentity, RegisterDb

C = LIMITS.checkpoint_every
BORN = GameIdentity("run", bytes(32), "5bec")
LASTING = replace(HOST_JOIN, durable=True)
THREE = ("a", "b", "c")


def test_departures_epoch_and_the_lost_are_recalled(tmp_path: Path) -> None:
    departures = (Departure(20, np.array([3])), Departure(120, np.array([0, 65535])))
    memory = SavedGame("playing", 192, 64, description=Description(2), epoch=3, departures=departures)
    with RegisterDb.open(tmp_path / "register", BORN) as archive:
        members = (SavedMember("a", Role.HOST, "here:1", 1, lost=True), SavedMember("b", Role.HOST, "there:1", 1))
        archive.save(replace(memory, members=members))

    with RegisterDb.open(tmp_path / "register", BORN) as archive:
        recalled = archive.read()

    assert recalled.epoch == 3
    assert [(each.round, each.agents.tolist()) for each in recalled.departures] == [(20, [3]), (120, [0, 65535])]
    assert all(each.agents.dtype == np.intp for each in recalled.departures)
    assert [(each.name, each.lost) for each in recalled.members] == [("a", True), ("b", False)]


class Mortal(Play):
    """A game of three hosts whose coordinator may die at any effect and be followed by another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(None, hosts=3, policy=Policy.LEAVE)
        self.archive = RegisterDb.open(folder / "register", BORN)
        self.effects_left: int | None = None  # until its death

    def _note(self, effects: list[Effect]) -> list[Effect]:
        seen: list[Effect] = []
        for effect in effects:
            if self.effects_left == 0:
                break
            if self.effects_left is not None:
                self.effects_left -= 1
            if isinstance(effect, Keep):
                self.archive.save(effect.saved)
            seen.append(effect)
        return super()._note(seen)

    @property
    def dead(self) -> bool:
        """Whether the coordinator has died."""
        return self.effects_left == 0

    def be_born_again(self) -> None:
        """Let another take up the game; everyone who lives comes back, and knows what it was told."""
        self.effects_left = None
        rules = Rules(agents=N, hosts=3, rounds=None, policy=Policy.LEAVE)
        self.coordinator = Coordinator(GRAPH, rules, b"")
        self.coordinator.restore(self.archive.read(), BORN.secret)
        self._note(self.coordinator.resume())
        for name in (EVE, "a", "c"):
            news = self.news(name)
            self.open(name, have=max(rounds(news), default=C) if news else self.published, stale=not news)

    def news(self, name: str) -> list[ControlDown]:
        """Return all that a process was told since it heard of the second seating."""
        bodies = self.told[name]
        return next((bodies[i:] for i, each in enumerate(bodies) if isinstance(each, Seating) and each.departures), [])

    def answer(self) -> None:
        """Let those who live answer Hold, if they were told to hold last."""
        for name in ("a", "c"):
            last = [body for body in self.told[name] if isinstance(body, Hold | Seating)][-1]
            if isinstance(last, Hold):
                self.say(name, Holding({"a": 105, "c": 103}[name]))


def rounds(bodies: list[ControlDown]) -> list[int]:
    """Return the rounds whose topology is told."""
    return [body.round + i for body in bodies if isinstance(body, Topology) for i in range(body.rounds)]


def story(play: Mortal) -> Iterator[None]:
    """Give up one host of three, with a step wherever the coordinator may have died."""
    play.close("b")
    play.lose("b")
    yield
    play.answer()
    yield


def begun(folder: Path) -> Mortal:
    """Return a game of three hosts that have come to round 100."""
    play = Mortal(folder)
    play.join(EVE, replace(EVE_JOIN, durable=True))
    play.open(EVE)
    for name in THREE:
        play.come(name, LASTING)
    play.say(EVE, Description(2))
    while play.coordinator.view.scored < 100:
        furthest = min(100, play.published)
        for name in THREE:
            if furthest >= C:
                play.say(name, Checkpointed(C))
            play.say(name, Progress(furthest))
        play.say(EVE, Progress(furthest))
    return play


@pytest.mark.parametrize("death", range(16))
def test_wherever_the_coordinator_dies_the_lost_host_is_given_up_once_and_for_all(death: int, tmp_path: Path) -> None:
    play = begun(tmp_path)
    play.effects_left = death

    for _ in story(play):
        if play.dead:
            play.be_born_again()
            if not play.register["b"].lost:  # nobody has heard of it
                play.lose("b")
            play.answer()

    coordinator = play.coordinator
    assert coordinator.view.epoch == 2
    assert [each.round for each in coordinator._state.departures] == [106]
    assert {host.name for host in play.register.players} == {"a", "c"}
    with pytest.raises(Mismatch, match="given up"):
        play.join("b", LASTING)
    for name in ("a", "c"):
        news = play.news(name)
        assert rounds(news) == list(range(C + 1, play.published + 1))
        assert {each.round for body in news if isinstance(body, Seating) for each in body.departures} == {106}
        assert Hold() not in news
    play.archive.close()


def test_a_coordinator_does_not_take_up_a_game_under_a_policy_that_its_hosts_cannot_follow() -> None:
    coordinator = Coordinator(GRAPH, Rules(agents=N, hosts=1, rounds=None, policy=Policy.REPLACE), b"")
    a = SavedMember("a", Role.HOST, "here:1", 1, seats=np.arange(N))
    coordinator.restore(SavedGame("playing", 64, epoch=1, description=Description(2), members=(a,)), b"")

    with pytest.raises(BadSpec, match=r"a plays without --state, .* start the coordinator with --policy wait"):
        coordinator.resume()


def test_a_game_that_is_over_waits_for_nobody_who_was_lost_in_an_earlier_life() -> None:
    coordinator = Coordinator(GRAPH, Rules(agents=N, hosts=2, rounds=None, policy=Policy.LEAVE), b"")
    a = SavedMember("a", Role.HOST, "here:1", 1, durable=True, seats=np.arange(N), acknowledged=True)
    b = SavedMember("b", Role.HOST, "here:2", 1, durable=True, lost=True)

    coordinator.restore(SavedGame("over", 64, epoch=2, description=Description(2), members=(a, b)), b"")

    assert coordinator.resume() == [Leave()]
