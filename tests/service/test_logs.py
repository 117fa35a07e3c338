"""What a game says of itself: nothing secret in the logs, and its end to whoever watches."""

import base64
import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog
from tests.support.services import REVEAL, SECRET, converse, playing, small_spec

from slaternet import tickets as identity
from slaternet.errors import Unreachable
from slaternet.network.certificates import read
from slaternet.network.client import open_channel
from slaternet.service import logs
from slaternet.service.logs import configure_log
from slaternet_lab.status.operator import GameStatus, ask_status
from slaternet_lab.status.watch import View, poll
from slaternet_lab.tools.certificates import make

HOSTS = ("agent-1", "agent-2")
PLUGIN = """
import numpy as np
from slaternet_adversary import Adversary

class Telling(Adversary):
    constraints = 1
    rowwise = True

    def play(self, round, past):
        return self

    def loss(self, agents, points):
        return np.full(points.shape[:2], 7391.4682)

    def constraint(self, agents, points):
        return np.full((*points.shape[:2], 1), -5847.2913)
"""
VALUES = ("7391.4", "5847.2")


@contextmanager
def speaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log everything there is, for programs; then be silent as before."""
    monkeypatch.setattr(logs, "_facts", {})
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_log("debug", "json")
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)


def secrets(certificates: Path) -> set[str]:
    """Return every ticket of the game and every private key, as they might be written."""
    names = ("coordinator", "adversary", *HOSTS)
    tickets = {
        identity.ticket(SECRET, holder, incarnation, server)
        for holder, server in itertools.permutations(names, 2)
        for incarnation in (1, 2)
    }
    keys = [line for path in certificates.glob("*/key.pem") for line in path.read_text().splitlines()]
    found = {key for key in keys if "-----" not in key}
    for raw in (SECRET, *tickets):
        found |= {raw.hex(), base64.b64encode(raw).decode(), json.dumps(repr(raw))[3:-2]}
    return found


async def test_a_game_that_is_logged_in_full_keeps_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "certificates", HOSTS, days=1)
    (tmp_path / "telling.py").write_text(PLUGIN)
    plugin = f"adversary.plugin={tmp_path / 'telling.py'}:Telling"
    spec = small_spec(plugin, "adversary.options={}", "adversary.isolation=none", rounds=None)

    with speaking(monkeypatch):
        async with playing(spec, tmp_path / "game", hosts=len(HOSTS), tls=tmp_path / "certificates") as game:
            insider = await REVEAL.find(game)
            thief = read(tmp_path / "certificates", "agent-2")
            stolen = REVEAL.encode(insider.head(), insider.opening())
            async with open_channel(insider.address, insider.server, security=thief) as channel:
                verdict = await converse(insider.address, REVEAL.method, [stolen], channel.grpc)
            await game.goes_on()
            await game.stop()
            await game.over()

    said = capsys.readouterr().err
    events = [json.loads(line) for line in said.splitlines()]
    assert verdict.error == "NotYours"
    assert {"joined", "seated", "refused", "finished", "the game is over"} <= {each["event"] for each in events}
    assert "debug" in {each["level"] for each in events}
    assert [secret for secret in (*secrets(tmp_path / "certificates"), *VALUES) if secret in said] == []


class Notes(View):
    """Records what a watcher sees."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.misses: list[Unreachable] = []

    def show(self, game: GameStatus) -> None:
        self.phases.append(game.status.phase)

    def show_unreachable(self, error: Unreachable) -> None:
        self.misses.append(error)


async def test_whoever_watches_a_game_hears_of_its_end_though_it_is_over_in_a_moment(tmp_path: Path) -> None:
    notes = Notes()
    async with (
        playing(small_spec(rounds=None), tmp_path / "game", hosts=2) as game,
        open_channel(game.address) as there,
    ):

        async def ask() -> GameStatus:
            standing = await ask_status(there, again=True)
            if standing.status.phase == "playing":
                await game.stop()
            return standing

        # between two looks the last rounds are played, everyone acknowledges the end and leaves
        end = await poll(ask, notes, pause=0.5)

    assert (end.phase, notes.phases[-1], notes.misses) == ("over", "over", [])
