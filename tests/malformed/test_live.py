"""Mutated messages at the servers of a game under way: each loses its own call or stream, and the game ends as ever."""

import asyncio
import multiprocessing
import resource
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.malformed.live import FAR, Heard, Lane, flood, surprises
from tests.malformed.samples import CONTROL_UP as UP
from tests.malformed.samples import SAMPLES
from tests.support.services import (
    CONTROL,
    GOSSIP,
    REVEAL,
    Body,
    Door,
    Game,
    Insider,
    digest,
    playing,
    reference,
    small_spec,
)

from slaternet import codec
from slaternet.model import (
    PROTOCOL,
    Frame,
    Head,
    Heartbeat,
    Join,
    Question,
    ResendFrom,
    Role,
    Usage,
)
from slaternet.numerics import fingerprint as identity
from slaternet.service.membership import Applicant, Membership

ENDLESS = small_spec(rounds=None)
P, N = ENDLESS.run.dimension, ENDLESS.run.agents
SPARE = "agent-9"
HOSTS = ("agent-1", "agent-2", "agent-3")
STRANGER = Head("", 0, 0, HOSTS[0])
REACHED = ("Malformed", "Unknown", "WrongRun", "NotYours", "RoundNotOpen", "NotSeated", "Mismatch")
CEILING = 64 << 20
"""Bytes by which the memory of all servers may grow, with the game they play."""


def unary(address: str) -> list[Lane]:
    join = Join(Role.HOST, "127.0.0.1:1", 0, PROTOCOL, identity.fingerprint())
    calls = {
        "Join": (codec.encode_join(STRANGER, join),),
        "Status": tuple(codec.encode_status_request(STRANGER, again) for again in (False, True)),
        "Stop": (codec.encode_stop_request(STRANGER),),
    }
    return [
        Lane(name, address, f"/slaternet.v1.Coordinator/{name}", sound, hosts=HOSTS) for name, sound in calls.items()
    ]


def streams(door: Door, insider: Insider, sound: tuple[bytes, ...]) -> list[Lane]:
    """Return the lanes of a stranger and of an insider at a door."""
    opening, name = door.encode(insider.head(), insider.opening()), door.method.rpartition("/")[2]
    at = Lane(f"{name} of a stranger", insider.address, door.method, (opening, *sound), dimension=P, agents=N)
    return [at, replace(at, what=f"{name} of an insider", opening=opening, head=insider.head())]


async def lanes(game: Game) -> list[Lane]:
    await Membership.join(game.address, Applicant(SPARE, Role.HOST, "127.0.0.1:1"))
    spare = Insider(game.run, SPARE, "coordinator", game.address, 1, np.empty(0, np.intp))
    said = [each for each in SAMPLES if each.kind is UP]
    up = [CONTROL.encode(spare.head(head.round), body) for head, body in (UP.receiver()(each.data) for each in said)]

    asker = await REVEAL.find(game)
    k = len(asker.seats)
    question = Question(FAR, asker.seats, np.zeros((k, P)), np.zeros((k, 2, P)))
    reveal: list[Body] = [question, Usage(FAR, 1, 2, 4, 3.0), Heartbeat()]

    peer = await GOSSIP.find(game)
    gossip: list[Body] = [Frame(FAR, peer.seats, np.zeros((k, P))), ResendFrom(FAR), Heartbeat()]
    return [
        *unary(game.address),
        *streams(CONTROL, spare, tuple(up)),
        *streams(REVEAL, asker, tuple(REVEAL.encode(asker.head(FAR), body) for body in reveal)),
        *streams(GOSSIP, peer, tuple(GOSSIP.encode(peer.head(FAR), body) for body in gossip)),
    ]


async def outlives(game: Game) -> None:
    """Wait until a round is scored that was not published yet; those of its processes that are spares play none."""
    published = (await game.status()).published
    await game.until(lambda status: status.round > published)


async def ends_as_if_alone(game: Game, folder: Path) -> None:
    """Stop the game; require that it was played to the bits of its simulation."""
    await outlives(game)
    await game.stop()
    run = await game.over()
    assert digest(run) == reference(run.spec, folder / "simulation")


async def flooded(game: Game, insiders: int, strangers: int, bursts: int) -> tuple[Counter[Heard], list[int]]:
    """Send so many messages on each lane in every burst, from another process, the game going on after each.

    Return what was heard, and the most memory that this process, with all servers, had needed after each burst.
    """
    heard: Counter[Heard] = Counter()
    targets, peaks, loop = await lanes(game), [], asyncio.get_running_loop()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as elsewhere:
        for burst in range(bursts):
            floods = [
                loop.run_in_executor(
                    elsewhere, flood, [each for each in targets if bool(each.opening) is inside], many, f"{burst}"
                )
                for inside, many in ((True, insiders), (False, strangers))
            ]
            for answers in await asyncio.gather(*floods):
                heard += answers
            await outlives(game)
            peaks.append(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return heard, peaks


async def test_mutated_messages_at_live_servers_change_nothing_for_a_game(tmp_path: Path) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=len(HOSTS)) as game:
        heard = await asyncio.to_thread(flood, await lanes(game), 20, "1")
        await ends_as_if_alone(game, tmp_path)

    assert surprises(heard) == {}
    assert heard.total() == 9 * 20


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_twenty_thousand_mutated_messages_at_live_servers_change_nothing_for_a_game(tmp_path: Path) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=len(HOSTS)) as game:
        heard, peaks = await flooded(game, insiders=100, strangers=620, bursts=5)
        await ends_as_if_alone(game, tmp_path)

    assert surprises(heard) == {}
    assert heard.total() > 20_000
    assert peaks[-1] - peaks[0] < CEILING
    refused: Counter[str] = Counter()
    for (_, _, _, error), count in heard.items():
        refused[error] += count
    assert min(refused[each] for each in REACHED) > 10, refused
