"""A host whose last message holds escapes, line ends and markup: nobody obeys them, all read the same plain text."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import structlog
from tests.support.services import (
    CONTROL,
    DEADLINE,
    LOOPBACK,
    Game,
    Insider,
    gathering,
    small_spec,
)

from slaternet.model import Role
from slaternet.network.client import dial, open_channel
from slaternet.service import logs
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet.v1 import coordinator_pb2 as pb
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService

HOSTILE = "\x1b[2J\x9b31mgone\r\nslaternet: \u202eall is well\u2028[bold red]really[/bold red]\x07"
PLAIN = "?[2J?31mgone slaternet: ?all is well [bold red]really[/bold red]?"
LIAR = "agent-3"


@pytest.fixture(params=logs.FORMATS)
def logged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log as processes do, to standard error."""
    monkeypatch.setattr(logs, "_format", "console")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    logs.configure_log("debug", request.param)
    yield
    structlog.reset_defaults()


def failing(insider: Insider) -> bytes:
    """Return the message that our own codec would not write."""
    head = insider.head()
    failed = pb.Failed(reason=HOSTILE)
    about = {"run": head.run, "epoch": head.epoch, "round": head.round, "sender": head.sender}
    return pb.ControlUp(head=about, failed=failed).SerializeToString()


async def run(*arguments: str) -> str:
    """Return all that a command of the operator prints."""
    command = (sys.executable, "-m", "slaternet_lab", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(DEADLINE):
        printed, _ = await process.communicate()
    return printed.decode()


@pytest.mark.usefixtures("logged")
async def test_the_failure_of_a_host_is_plain_text_for_everyone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with gathering(small_spec(rounds=None), hosts=3) as gathered:
        for name in ("agent-1", "agent-2"):
            gathered.start(HostService(ProcessConfig(name, gathered.address, LOOPBACK)))
        liar = await Membership.join(gathered.address, Applicant(LIAR, Role.HOST, "127.0.0.1:1"))
        game = Game(gathered.address, tmp_path / "game", gathered.tasks, liar.run)
        seats = np.empty(0, np.intp)
        insider = Insider(liar.run, LIAR, "coordinator", gathered.address, liar.incarnation, seats)
        async with open_channel(gathered.address) as channel, dial(channel, CONTROL.method) as link:
            link.send(CONTROL.encode(insider.head(epoch=0), insider.opening()))
            gathered.start(AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), game.folder))
            await game.until(lambda status: status.phase == "playing")
            link.send(failing(insider))
            async with asyncio.timeout(DEADLINE):
                status = await game.status()
                while PLAIN not in str(status):
                    status = await game.status()
            # the coordinator is still there: the liar does not acknowledge the end, if there is one
            shown = [await run("status", game.address), await run("status", game.address, "--json")]
    ends = await asyncio.gather(*gathered.tasks, return_exceptions=True)

    printed = capsys.readouterr()
    told = [status.failure, status.waiting_for, *(each.what for each in status.troubles)]
    texts = [*told, *shown, printed.out, printed.err, *map(str, ends)]
    assert [line for text in texts for line in text.split("\n") if not line.isprintable()] == []
    # a table folds what is too long for its column
    assert all("[boldred]really[/boldred]" in "".join(text.split()) for text in (*shown, printed.err))
