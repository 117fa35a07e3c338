"""What `--journal-keep` does not go with is refused, each with a sentence."""

import asyncio
from pathlib import Path

import pytest
from tests.support.services import DEADLINE, LOOPBACK, gathering, small_spec

from slaternet.errors import BadSpec
from slaternet.service.config import ProcessConfig
from slaternet_adversary.journal.compaction import LEAST
from slaternet_adversary.journal.journal import JOURNAL
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.engine.rules import Policy
from slaternet_lab import play

ADAPTIVE = """
from slaternet_adversary.builtin.moving_target import MovingTarget

class Adaptive(MovingTarget):
    history = 2
"""


@pytest.mark.parametrize(
    ("keep", "policy", "says"),
    [
        (LEAST - 1, Policy.WAIT, f"--journal-keep {LEAST - 1} is too few"),
        (LEAST, Policy.LEAVE, "--journal-keep does not go with --policy leave"),
        (LEAST, Policy.REPLACE, "--journal-keep does not go with --policy replace"),
    ],
)
def test_run_refuses_before_anything_is_written(keep: int, policy: Policy, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=f"^{says}"):
        play(small_spec(rounds=3), out=tmp_path / "run", policy=policy, journal_keep=keep)

    assert not (tmp_path / "run").exists()


async def test_an_adversary_that_looks_back_keeps_its_whole_journal(tmp_path: Path) -> None:
    plugin = tmp_path / "adaptive.py"
    plugin.write_text(ADAPTIVE)
    spec = small_spec(f"adversary.plugin={plugin}:Adaptive", "adversary.isolation=none", rounds=None)
    async with gathering(spec, hosts=1) as gathered, asyncio.timeout(DEADLINE):
        eve = ProcessConfig("adversary", gathered.address, LOOPBACK)
        with pytest.raises(BadSpec, match=r"^--journal-keep is not for .*:Adaptive, which looks back"):
            await AdversaryService(eve, tmp_path / "game", journal_keep=LEAST).run(asyncio.Event())

    assert not (tmp_path / "game" / JOURNAL).exists()


@pytest.mark.parametrize("policy", [Policy.LEAVE, Policy.REPLACE])
async def test_where_hosts_are_given_up_the_adversary_leaves(policy: Policy, tmp_path: Path) -> None:
    async with gathering(small_spec(rounds=None), hosts=1, policy=policy) as gathered, asyncio.timeout(DEADLINE):
        gathered.start(HostService(ProcessConfig("agent-1", gathered.address, LOOPBACK, state=tmp_path / "state")))
        eve = ProcessConfig("adversary", gathered.address, LOOPBACK, state=tmp_path / "state")
        with pytest.raises(BadSpec, match=r"^--journal-keep is not for a game whose coordinator gives hosts up"):
            await AdversaryService(eve, tmp_path / "game", journal_keep=LEAST).run(asyncio.Event())
