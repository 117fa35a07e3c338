"""A service that is asked to end does so at once, in any phase, and says what it leaves; the others miss it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.game.processes import SLATERNET, eventually, slaternet, write_spec

pytestmark = pytest.mark.slow

WITHIN = 5.0
COORDINATOR, ADVERSARY, FIRST, SECOND = "coordinator", "adversary", "agent-1", "agent-2"


class Service:
    """One service of a game; its log is a file."""

    def __init__(self, folder: Path, name: str, *arguments: object) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("w") as log:
            command = [SLATERNET, *map(str, arguments)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)

    def words(self) -> str:
        return self._log.read_text()

    def says(self, *words: str) -> str:
        """Wait until it has said all these words in one line; return the line."""

        def lines() -> list[str]:
            return [line for line in self.words().splitlines() if all(word in line for word in words)]

        eventually(lambda: bool(lines()) or self.process.poll() is not None)
        assert lines(), self.words()
        return lines()[0]

    def ends(self) -> None:
        """Ask it to end; require that it does so soon, as one that was interrupted."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WITHIN) == 130, self.words()
        assert "Traceback" not in self.words()


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
        for name in (ADVERSARY, FIRST, SECOND):
            services[name].says("seated")

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
