"""Requests of a host, recorded on their way to the adversary and sent again later, obtain no value."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from tests.support.services import LOOPBACK, REVEAL, Game, digest, gathering, reference, small_spec

from slaternet import codec
from slaternet.errors import SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Answer, Question
from slaternet.network.client import dial, open_channel
from slaternet.network.server import serve
from slaternet.network.stream import Stream
from slaternet.service.config import ProcessConfig
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService

ENDLESS = small_spec(rounds=None)
P = ENDLESS.run.dimension
REQUESTS = 1_000


@dataclass
class Recorder:
    """Carries the streams of a host to the adversary, and keeps what goes up."""

    adversary: str
    opening: bytes = b""
    questions: dict[int, bytes] = field(default_factory=dict)

    async def carry(self, link: Stream) -> None:
        """Carry one stream both ways."""
        decoder = codec.RevealUpDecoder(P)
        async with open_channel(self.adversary) as channel, dial(channel, REVEAL.method) as onward:
            back = asyncio.create_task(self._back(onward, link))
            try:
                while (data := await link.read()) is not None:
                    self._keep(decoder, data)
                    onward.send(data)
            finally:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)

    def _keep(self, decoder: codec.RevealUpDecoder, data: bytes) -> None:
        self.opening = self.opening or data
        message = decoder.decode(data)
        if message is not None and isinstance(message[1], Question):
            self.questions[message[1].round] = data

    async def _back(self, onward: Stream, link: Stream) -> None:
        try:
            while (data := await onward.read()) is not None:
                link.send(data)
        except SlaternetError as error:
            link.end(error)


@asynccontextmanager
async def recorded(folder: Path) -> AsyncIterator[tuple[Game, Recorder]]:
    """Play a game of one host, whose requests are recorded."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        recorder = Recorder(f"127.0.0.1:{probe.getsockname()[1]}")  # which nobody listens on
    relay = await serve(
        LOOPBACK, service="slaternet.v1.Adversary", unary={}, streams={"Reveal": recorder.carry}, hosts=1
    )
    try:
        async with gathering(ENDLESS, hosts=1) as gathered:
            gathered.start(HostService(ProcessConfig("agent-1", gathered.address, LOOPBACK)))
            config = ProcessConfig("adversary", gathered.address, recorder.adversary, relay.address)
            gathered.start(AdversaryService(config, folder))
            game = Game(gathered.address, folder, gathered.tasks, "")
            await game.until(lambda status: status.round > 0)
            yield game, recorder
    finally:
        await relay.stop()


def replay(address: str, conversations: Sequence[Sequence[bytes]]) -> tuple[int, Counter[str]]:
    """Send each conversation on a stream of its own; return how many answers came, and which errors ended them."""
    answers, errors = 0, Counter[str]()
    with grpc.insecure_channel(address) as channel:
        for messages in conversations:
            ended = "Replaced"
            while ended == "Replaced":  # the host was faster, and opened a stream of its own meanwhile
                received, ended = converse(channel, messages)
                answers += received
            errors[ended] += 1
    return answers, errors


def converse(channel: grpc.Channel, messages: Sequence[bytes]) -> tuple[int, str]:
    # not grpc.aio: a write that meets the end of the stream there hides the status it ended with
    received: list[bytes] = []
    speak: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(REVEAL.method)
    stream = speak(iter(messages), timeout=60)
    with suppress(grpc.RpcError):
        received += stream
    said = list(filter(None, map(codec.RevealDownDecoder().decode, received)))
    ended = dict(stream.trailing_metadata()).get("slaternet-error", stream.code().name)
    return sum(isinstance(body, Answer) for _, body in said), str(ended)


async def ends_as_its_simulation(game: Game, folder: Path) -> None:
    await game.goes_on()
    await game.stop()
    run = await game.over()
    assert digest(run) == reference(run.spec, folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_recorded_requests_sent_again_in_later_rounds_and_runs_obtain_no_value(tmp_path: Path) -> None:
    async with recorded(tmp_path / "first") as (game, recorder):
        await game.until(lambda status: status.round > REQUESTS + 2 * LIMITS.window)
        requests = [recorder.questions[round] for round in range(1, REQUESTS + 1)]
        again = [(recorder.opening, each) for each in requests]
        assert await asyncio.to_thread(replay, recorder.adversary, again) == (0, {"Forgotten": REQUESTS})
        await ends_as_its_simulation(game, tmp_path / "first simulation")

    async with recorded(tmp_path / "second") as (game, recorder):
        assert await asyncio.to_thread(replay, recorder.adversary, again) == (0, {"WrongRun": REQUESTS})
        # not even after an opening of the new run
        believed = [(recorder.opening, each) for each in requests[::10]]
        assert await asyncio.to_thread(replay, recorder.adversary, believed) == (0, {"WrongRun": len(believed)})
        await ends_as_its_simulation(game, tmp_path / "second simulation")
