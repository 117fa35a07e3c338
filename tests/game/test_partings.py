"""A service that is asked to end does so at once, in any phase, and says what it leaves; the others miss it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.game.processes import Service, eventually, recorded, slaternet, write_spec

pytestmark = pytest.mark.slow

COORDINATOR, ADVERSARY, FIRST, SECOND = "coordinator", "adversary", "agent-1", "agent-2"


class Game:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spec = write_spec(folder, rounds=None)
        self._address = ""
        self.services: dict[str, Service] = {}

    def __getitem__(self, name: str) -> Service:
        return self.services[name]

    def start(self, *names: str) -> None:
        for name in names:
            self.services[name] = Service(self._folder, name, *self._arguments(name))
            if name == COORDINATOR:
                self._address = self[COORDINATOR].says("listening on ").partition("listening on ")[2]

    def hears(self, name: str) -> None:
        """Wait until the coordinator has a stream of this process: who has joined may not have opened it yet."""

        def connected() -> bool:
            status = json.loads(slaternet("status", self._address, "--json").out)
            return any(each["name"] == name and each["connected"] for each in status["hosts"])

        eventually(connected)

    def plays(self) -> None:
        """Wait until a round is recorded: then all have their streams."""
        eventually(lambda: recorded(self._folder / "run") > 0)

    def _arguments(self, name: str) -> tuple[object, ...]:
        there = ("--coordinator", self._address or "127.0.0.1:1")
        match name:
            case "coordinator":
                return (COORDINATOR, self._spec, "--hosts", 2, "--listen", "127.0.0.1:0")
            case "adversary":
                return (ADVERSARY, *there, "--out", self._folder / "run")
            case _:
                return ("agent", "--name", name, *there)


@contextmanager
def game(folder: Path) -> Iterator[Game]:
    services = Game(folder)
    try:
        yield services
    finally:
        for each in services.services.values():
            each.process.kill()
            each.process.wait()


@pytest.mark.parametrize("leaver", [COORDINATOR, ADVERSARY, FIRST])
def test_a_service_that_is_asked_to_end_before_the_game_has_begun_says_so(leaver: str, tmp_path: Path) -> None:
    with game(tmp_path) as services:
        services.start(COORDINATOR, ADVERSARY, FIRST)
        services[COORDINATOR].says("missing='1 of 2 agent hosts'")
        services.hears(FIRST)

        services[leaver].ends()

        parting = {
            COORDINATOR: "leaves a game in phase gathering with 0 rounds scored",
            ADVERSARY: "leaves with 0 rounds scored",
            FIRST: "leaves without having had a seat",
        }
        services[leaver].says("warning", f"{leaver} {parting[leaver]}")
        if leaver == COORDINATOR:
            for name in (ADVERSARY, FIRST):
                services[name].says("stream broke", "server=coordinator")
        else:
            services[COORDINATOR].says("warning", f"{leaver} has gone before the game has begun")


@pytest.mark.parametrize("leaver", [COORDINATOR, ADVERSARY, SECOND])
def test_a_service_that_is_asked_to_end_in_the_middle_says_what_it_leaves_and_all_others_miss_it(
    leaver: str, tmp_path: Path
) -> None:
    with game(tmp_path) as services:
        services.start(COORDINATOR, ADVERSARY, FIRST, SECOND)
        services.plays()

        services[leaver].ends()

        services[leaver].says("warning", f"{leaver} leaves", "round")
        for name in {COORDINATOR, ADVERSARY, FIRST, SECOND} - {leaver}:
            services[name].says("warning", leaver)


@pytest.mark.parametrize("name", [ADVERSARY, FIRST])
def test_a_service_that_waits_for_the_coordinator_says_so_and_ends_when_asked(name: str, tmp_path: Path) -> None:
    with game(tmp_path) as services:
        services.start(name)
        services[name].says("waiting for the coordinator", "address=127.0.0.1:1", "connection refused")

        services[name].ends()

        services[name].says("warning", f"{name} leaves")
