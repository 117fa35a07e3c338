"""Scores are the operator's: with TLS no other certificate sees them, and /metrics holds them only where he says so."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from structlog.testing import capture_logs
from tests.support.services import DEADLINE, LOOPBACK, Game, gathering, playing, small_spec
from typer.testing import CliRunner, Result

from slaternet.network.certificates import LOOPBACK as PLAIN
from slaternet.network.certificates import Security, read
from slaternet.network.client import open_channel
from slaternet.service.config import ProcessConfig
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_lab.cli import app
from slaternet_lab.status.operator import ask_status
from slaternet_lab.tools.certificates import make


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, ("agent-1", "agent-2"), days=1)
    return folder


async def scores(game: Game, security: Security) -> tuple[float | None, float | None]:
    """Return the scores that a caller is shown of a game that has some."""
    async with open_channel(game.address, "coordinator", security=security) as channel:
        status = (await ask_status(channel)).status
    assert status.round > 0
    return status.cumulative_loss, status.cumulative_violation


async def slaternet(*arguments: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, [str(each) for each in arguments])


async def test_with_certificates_scores_are_shown_to_the_operator_alone(authority: Path, tmp_path: Path) -> None:
    for name in ("agent-1", "operator"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).symlink_to(authority / name)
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=2, tls=authority) as game:
        await game.goes_on()

        for name in ("agent-1", "agent-2", "adversary", "coordinator"):
            assert await scores(game, read(authority, name)) == (None, None)
        loss, violation = await scores(game, read(authority, "operator"))
        assert loss is not None
        assert violation is not None
        assert loss > 0

        asked = await slaternet("status", game.address, "--json", "--tls", tmp_path / "agent-1")
        told = json.loads(asked.output)
        assert (told["scores_withheld"], told["cumulative_loss"], told["cumulative_violation"]) == (True, None, None)
        assert told["round"] > 0
        assert (
            "for the operator's certificate alone"
            in (await slaternet("status", game.address, "--tls", tmp_path / "agent-1")).output
        )
        told = json.loads((await slaternet("status", game.address, "--json", "--tls", tmp_path / "operator")).output)
        assert told["scores_withheld"] is False
        assert told["cumulative_loss"] >= loss
        await game.stop()
        await game.over()


async def test_without_certificates_everybody_who_can_connect_sees_them(tmp_path: Path) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=1) as game:
        await game.goes_on()
        loss, _ = await scores(game, PLAIN)
        assert loss is not None
        assert loss > 0
        await game.stop()
        await game.over()


@asynccontextmanager
async def scraped(folder: Path, *, metrics_values: bool) -> AsyncIterator[dict[str, str]]:
    """Give what /metrics of the adversary and of a host say while a game is played and scored."""
    with capture_logs() as log:
        async with gathering(small_spec(rounds=None), hosts=1) as gathered:
            config = ProcessConfig("adversary", gathered.address, LOOPBACK, metrics=LOOPBACK)
            gathered.start(AdversaryService(config, folder, metrics_values=metrics_values))
            gathered.start(HostService(ProcessConfig("agent-1", gathered.address, LOOPBACK, metrics=LOOPBACK)))
            game = Game(gathered.address, folder, gathered.tasks, "")
            await game.until(lambda status: status.round > 0)
            urls = [entry["url"] for entry in log if entry["event"] == "metrics"]
            texts = [await asyncio.to_thread(_page, url) for url in urls]
            yield {"adversary" if 'role="adversary"' in text else "host": text for text in texts}
            await game.stop()
            await game.over()


def _page(url: str) -> str:
    with urlopen(url, timeout=DEADLINE) as reply:
        text: str = reply.read().decode()
    return text


@pytest.mark.parametrize("metrics_values", [False, True])
async def test_metrics_hold_losses_and_violations_only_where_the_operator_says_so(
    metrics_values: bool, tmp_path: Path
) -> None:
    async with scraped(tmp_path / "game", metrics_values=metrics_values) as texts:
        assert "slaternet_rounds_recorded_total" in texts["adversary"]
        assert ("\nslaternet_cumulative_loss " in texts["adversary"]) is metrics_values
        assert ("\nslaternet_cumulative_violation " in texts["adversary"]) is metrics_values
        for text in texts.values():
            assert "linear-regression" not in text  # nor which plugin it is
        assert not any(word in texts["host"] for word in ("loss", "violation"))
