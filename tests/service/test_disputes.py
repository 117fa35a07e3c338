"""Rows of which a host has sent two versions, over real gRPC: judged where a host can, or else the game is marked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.services import DEADLINE, LOOPBACK, digest, gathering, reference, small_spec

from slaternet.model import Frame
from slaternet.service.config import ProcessConfig
from slaternet.service.main import DEGRADED
from slaternet_adversary.shell.incident_file import read_incidents
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.gossip import GossipStreams
from slaternet_agent.shell.service import HostService
from slaternet_lab import Run

SPEC = small_spec("graph.name=complete", rounds=120)
HOSTILE, ROUND, AHEAD = "agent-1", 10, 20

Versions = Callable[[Frame], list[Frame]]


def both(frame: Frame) -> list[Frame]:
    """Return a false frame of the round, and then the true one: of two hosts, none can judge."""
    return [replace(frame, rows=frame.rows * 0.5), frame]


def ahead(frame: Frame) -> list[Frame]:
    """Return two frames of a round that is far from being bought, and the true one of this round."""
    far = replace(frame, round=frame.round + AHEAD)
    return [far, replace(far, rows=far.rows * 0.5), frame]


def beyond(frame: Frame) -> list[Frame]:
    """Return two frames of a round whose topology is not published, and the true one of this round."""
    return [replace(each, round=frame.round + 100) for each in ahead(frame)[:2]] + [frame]


@pytest.mark.parametrize(("hosts", "versions", "disturbed"), [(2, both, True), (4, ahead, False), (4, beyond, False)])
async def test_a_game_in_which_two_versions_of_rows_were_sent_ends_as_simulated_or_says_that_it_is_disturbed(
    hosts: int, versions: Versions, disturbed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, sent = GossipStreams.send, set[int]()

    def send(streams: GossipStreams, index: int, frame: Frame, *, later: bool = False) -> bool:
        if streams._membership.name != HOSTILE or frame.round != ROUND or index in sent:
            return honest(streams, index, frame, later=later)
        sent.add(index)
        return [honest(streams, index, each, later=later) for each in versions(frame)][-1]

    monkeypatch.setattr(GossipStreams, "send", send)
    async with gathering(SPEC, hosts=hosts) as gathered, asyncio.timeout(DEADLINE):
        for number in range(1, hosts + 1):
            gathered.start(HostService(ProcessConfig(f"agent-{number}", gathered.address, LOOPBACK)))
        gathered.start(AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), tmp_path / "run"))
        codes = await asyncio.gather(*gathered.tasks)

    assert len(sent) == hosts - 1
    assert codes == [DEGRADED if disturbed else 0, *[0] * (hosts + 1)]
    run = Run.open(tmp_path / "run")
    assert run.summary["disturbed"] is disturbed
    kinds = {(each.process, each.kind) for each in read_incidents(run.folder)}
    assert (HOSTILE, "dispute") in kinds
    assert ("disturbed" in {kind for _, kind in kinds}) is disturbed
    assert {"refused", "failed", "false-rows", "gone"}.isdisjoint(kind for _, kind in kinds)
    assert (digest(run) == reference(SPEC, tmp_path / "simulated")) is not disturbed
