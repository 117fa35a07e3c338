"""A stream that is cut comes back, and the game ends in the same bits."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.support.services import CONTROL, GOSSIP, REVEAL, Door, Game, Insider, converse, playing, small_spec

CUTS = 2


async def adversary_at_the_coordinator(game: Game) -> Insider:
    return await game.insider("adversary", "coordinator")


DOORS = pytest.mark.parametrize(
    ("door", "find"),
    [
        (CONTROL, CONTROL.find),
        (CONTROL, adversary_at_the_coordinator),
        (REVEAL, REVEAL.find),
        (GOSSIP, GOSSIP.find),
    ],
    ids=["host's control", "adversary's control", "reveal", "gossip"],
)


@DOORS
async def test_a_replaced_stream_comes_back_and_replaces_the_intruder(
    door: Door, find: Callable[[Game], Awaitable[Insider]], tmp_path: Path
) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=3) as game:
        insider = await find(game)
        opening = door.encode(insider.head(), insider.opening())
        await game.outlives_its_window()
        for _ in range(CUTS):
            verdict = await converse(insider.address, door.method, [opening])
            await game.outlives_its_window()

            assert (verdict.code, verdict.error) == (grpc.StatusCode.ABORTED, "Replaced")
        await game.ends_as_its_simulation(tmp_path / "simulation")


@DOORS
async def test_a_stream_is_dialled_again_when_the_intruder_has_gone(
    door: Door, find: Callable[[Game], Awaitable[Insider]], tmp_path: Path
) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=3) as game:
        insider = await find(game)
        opening = door.encode(insider.head(), insider.opening())
        await game.outlives_its_window()
        for _ in range(CUTS):
            async with grpc.aio.insecure_channel(insider.address) as channel:
                stream: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(door.method)()
                await stream.write(opening)
                stream.cancel()
            await game.outlives_its_window()
        await game.ends_as_its_simulation(tmp_path / "simulation")
