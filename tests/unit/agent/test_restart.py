"""A host that is started again goes on from its checkpoint, and one whose company is started again goes on with it."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from structlog.testing import capture_logs
from tests.support.agent_stage import HOST, LAST, LOOPBACK, SPEC, TAG, Stage, gossiping, playing, seated

from slaternet.errors import Damaged, Mismatch, NotSeated, RunFailed, SlaternetError, Superseded
from slaternet.model import Checkpointed, ControlUp, Finished, Frame, Heartbeat, Opening, Progress, Question, Usage
from slaternet.network.server import serve
from slaternet.storage.checkpoints import Checkpoints
from slaternet_agent.engine.host_state import restored

M = 3
B = TypeVar("B", bound=ControlUp)


def checkpoints(folder: Path, run: str = "run-1") -> Checkpoints:
    """Return the checkpoints of the host on the stage."""
    return Checkpoints(folder / "agent-1" / "checkpoints", "agent-1", run, TAG)


def kept(numbers: bytes) -> bytes:
    """Return the checkpoint of the one agent that sits at the host, with these numbers."""
    return len(HOST).to_bytes(8, "little") + HOST.astype("<i8").tobytes() + numbers


async def says(stage: Stage, kind: type[B]) -> tuple[B, list[object]]:
    """Return what of a kind the host says next to the coordinator, and what it says before."""
    before: list[object] = []
    while not isinstance(said := await stage.control.hear(object), kind):
        before.append(said)
    return said, before


async def last_words(stage: Stage) -> set[type]:
    """Return the kinds of all that the host has said to the coordinator before it hung up."""
    with suppress(SlaternetError, AssertionError):  # how the stream ends
        while True:
            await stage.control.hear(object)
    return {type(each) for each in stage.control.heard} - {Opening}


async def leaves(stage: Stage) -> SlaternetError:
    """Wait until the host leaves without a word; return why."""
    with pytest.raises(SlaternetError) as caught:
        await stage.host
    return caught.value


async def entered(stage: Stage, round: int) -> tuple[bytes, bytes]:
    """Let the host enter a round; return the bits of its frame and of its question."""
    frame = await stage.peer.hear(Frame)
    stage.frame(round, 0.25)
    question = await stage.reveal.hear(Question)
    assert (frame.round, question.round) == (round, round)
    return frame.rows.tobytes(), question.x.tobytes() + question.points.tobytes()


@pytest.mark.parametrize("durable", [False, True])
async def test_a_host_says_whether_it_can_come_back(durable: bool, tmp_path: Path) -> None:
    async with seated(SPEC, state=tmp_path if durable else None) as stage:
        assert [each.durable for each in stage.joins] == [durable]


async def test_a_host_that_is_started_again_says_every_bit_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(SPEC, state=tmp_path) as stage:
        for t in range(1, M + 1):
            await entered(stage, t)
            stage.answer(t)
        first = await entered(stage, M + 1)
    checkpoints(tmp_path).write(M, kept(first[0]))  # what the paper's algorithm gossips is its state

    decoded = []
    monkeypatch.setattr("slaternet_agent.shell.session.restored", lambda *of: decoded.append(of) or restored(*of))
    async with playing(SPEC, state=tmp_path, low_water=M) as stage:
        assert stage.joins[0].spec_tag == TAG
        assert stage.control.opening.round == M
        assert await entered(stage, M + 1) == first
    assert len(decoded) == 1


async def test_the_end_is_said_once_the_last_checkpoint_is_kept_and_both_on_every_stream(tmp_path: Path) -> None:
    async with playing(SPEC, state=tmp_path) as stage:
        await stage.play(LAST)
        _, before = await says(stage, Finished)
        assert Checkpointed(LAST) in before
        assert checkpoints(tmp_path).rounds() == [LAST]

        stage.control.end()
        await stage.attends()
        _, before = await says(stage, Finished)
        assert before == [Progress(LAST), Checkpointed(LAST)]


async def test_a_host_that_comes_back_to_its_end_says_so_and_serves(tmp_path: Path) -> None:
    checkpoints(tmp_path).write(LAST, kept(bytes(16)))
    async with seated(SPEC, state=tmp_path, low_water=LAST) as stage:
        assert (await says(stage, Finished))[1] == [Progress(LAST)]
        await stage.reveals()
        await stage.reveal.hear(Usage)
        async with gossiping(stage):
            pass


async def test_a_host_whose_checkpoint_is_missing_is_refused_and_the_game_waits(tmp_path: Path) -> None:
    checkpoints(tmp_path).write(M + 1, bytes(16))
    async with seated(SPEC, state=tmp_path, low_water=M) as stage:
        error = await leaves(stage)
        assert await last_words(stage) == set()

    assert (type(error), error.exit_code) == (Mismatch, 4)
    assert f"holds no checkpoint of round {M}, from which agent-1 must go on; put back what was there" in str(error)


async def test_a_host_whose_checkpoint_is_damaged_is_refused_and_the_game_waits(tmp_path: Path) -> None:
    checkpoints(tmp_path).write(M, bytes(16))
    file = tmp_path / "agent-1" / "checkpoints" / f"{M:06d}"
    bits = bytearray(file.read_bytes())
    bits[-1] ^= 1
    file.write_bytes(bits)
    async with seated(SPEC, state=tmp_path, low_water=M) as stage:
        error = await leaves(stage)
        assert await last_words(stage) == set()

    assert (type(error), error.exit_code) == (Damaged, 5)


async def test_a_host_that_has_kept_nothing_cannot_come_back() -> None:
    async with seated(SPEC, low_water=M) as stage:
        error = await leaves(stage)

    assert isinstance(error, Mismatch)
    assert (
        str(error)
        == f"agent-1 must go on from round {M}, and has kept nothing; start it with the --state it had before"
    )


async def test_a_full_disk_ends_the_process_with_a_sentence_and_not_the_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise RunFailed("there is no room for a checkpoint; free space and start again")

    monkeypatch.setattr("slaternet.storage.checkpoints.draft", refuse)
    with capture_logs() as said:
        async with playing(SPEC, state=tmp_path) as stage:
            await stage.play(LAST)
            error = await leaves(stage)
            words = await last_words(stage)

    assert (type(error), error.exit_code) == (RunFailed, 3)
    assert str(error) == "there is no room for a checkpoint; free space and start again"
    assert {"event": "leaving", "reason": str(error)}.items() <= next(
        e for e in said if e["event"] == "leaving"
    ).items()
    assert words <= {Progress}  # no failure, no checkpoint, no end


# Others who come back


async def test_a_peer_that_comes_back_waits_until_it_is_announced_and_ends_the_streams_of_its_older_life() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        older = stage.peer
        with pytest.raises(NotSeated, match="this incarnation has not been announced here yet"):
            async with gossiping(stage, incarnation=2):
                pass

        (peer,) = stage.seating.peers
        stage.tell(replace(stage.seating, peers=(replace(peer, incarnation=2),)))
        with pytest.raises(Superseded):
            await older.hear(Heartbeat)
        with pytest.raises(Superseded):
            async with gossiping(stage, incarnation=1):
                pass
        async with gossiping(stage, incarnation=2, first=1, wanted=2):
            assert [(await stage.peer.hear(Frame)).round for _ in range(2)] == [1, 2]  # all that it lacks
            stage.frame(1)  # and it sends its own again
            stage.frame(2)
            assert (await stage.reveal.hear(Question)).round == 2


async def test_an_adversary_that_comes_back_elsewhere_is_asked_there_what_it_has_not_answered() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        question = await stage.reveal.hear(Question)
        streams = {"Reveal": stage.serve_reveal}
        elsewhere = await serve(LOOPBACK, service="slaternet.v1.Adversary", unary={}, streams=streams, hosts=1)
        try:
            eve = stage.seating.adversary
            assert eve is not None
            stage.tell(replace(stage.seating, adversary=replace(eve, incarnation=2, address=elsewhere.address)))
            await stage.reveals()
            again = await stage.reveal.hear(Question)
            assert (again.round, again.x.tobytes()) == (2, question.x.tobytes())
            stage.answer(2)
            assert (await stage.peer.hear(Frame)).round == 3
        finally:
            for voice in stage.voices:
                voice.end()
            await elsewhere.stop()


async def test_a_seating_that_is_told_again_unchanged_changes_nothing() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.tell(stage.seating)
        stage.frame(2)
        assert (await stage.reveal.hear(Question)).round == 2
        stage.answer(2)
        assert (await stage.peer.hear(Frame)).round == 3
