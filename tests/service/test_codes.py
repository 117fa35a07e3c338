"""Games in a gossip code over real gRPC: the digest of the simulation, and a peer whose frames are not in the code."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.support.gossip_settings import GAMES, GRAPHS
from tests.support.services import GOSSIP, Insider, Verdict, converse, digest, playing, reference, small_spec

from slaternet import codec
from slaternet.limits import LIMITS
from slaternet.model import CodedFrame, Frame, Layout, Symbols
from slaternet.v1 import agent_pb2 as pb
from slaternet_lab import Run


def sent(run: Run, name: str) -> int:
    """Return what all hosts have sent."""
    assert run.summary is not None
    return int(run.summary["network"][name])


@pytest.mark.parametrize("name", GAMES)
async def test_a_coded_game_ends_in_the_digest_of_its_simulation(name: str, tmp_path: Path) -> None:
    spec = small_spec(*GAMES[name], "run.dimension=10", "graph.name=erdos-renyi", "graph.degree=2.0", rounds=40)
    async with playing(spec, tmp_path / "game", hosts=3) as game:
        run = await game.over()

    assert digest(run) == reference(spec, tmp_path / "simulation")
    assert sent(run, "rows_sent") > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("hosts", [1, 2, 5])
async def test_every_code_gives_one_digest_on_any_number_of_hosts(hosts: int, graph: str, tmp_path: Path) -> None:
    for name, settings in GAMES.items():
        spec = small_spec(*settings, *GRAPHS[graph], "run.agents=10", rounds=30)
        async with playing(spec, tmp_path / name, hosts=hosts) as game:
            run = await game.over()
        assert digest(run) == reference(spec, tmp_path / f"{name}-simulated"), name


async def test_games_in_different_codes_are_different_games(tmp_path: Path) -> None:
    settings = {"exact": (), **GAMES}
    specs = {name: small_spec(*each, "run.dimension=10", rounds=40) for name, each in settings.items()}
    digests = {name: reference(spec, tmp_path / name) for name, spec in specs.items()}

    assert len(set(digests.values())) == len(digests)


P = 4
OVER = 5
"""A round of which nobody keeps anything: what is decoded of it changes no game."""
LEVELS = ("gossip.code=levels", "gossip.levels=4", f"run.dimension={P}")
GRID = ("gossip.code=grid", "gossip.width=0.5", f"run.dimension={P}")


@dataclass(frozen=True)
class Liar:
    """A host of the game that sends frames of its own."""

    insider: Insider
    round: int

    def opens(self) -> bytes:
        return GOSSIP.encode(self.insider.head(), self.insider.opening())

    def frame(self, layout: Layout, *, ahead: int = 0, number: int = 1, scale: float = 1.0) -> bytes:
        """Return a frame that is as a frame should be, but for what is given."""
        k, round = len(self.insider.seats), self.round + ahead
        numbers = np.full((k, layout.numbers), number, np.uint64)
        symbols = Symbols(np.full((k, layout.scales), scale, np.float32), numbers)
        head = self.insider.head(round)
        return codec.encode_gossip(head, CodedFrame(round, self.insider.seats, symbols), layout=layout)[0]

    def altered(self, layout: Layout, alter: Callable[[pb.Frame], None]) -> bytes:
        """Return a frame in which something is changed."""
        message = pb.GossipMessage.FromString(self.frame(layout))
        alter(message.frame)
        return message.SerializeToString()

    def rows(self, round: int) -> bytes:
        """Return rows as they are."""
        rows = np.zeros((len(self.insider.seats), P))
        return GOSSIP.encode(self.insider.head(round), Frame(round, self.insider.seats, rows))


OF_LEVELS, OF_GRID = Layout("levels", scales=1, numbers=P), Layout("grid", numbers=P)


def set_field(name: str, value: object) -> Callable[[pb.Frame], None]:
    return lambda frame: setattr(frame, name, value)


def infinite(frame: pb.Frame) -> None:
    """Make the first norm of a frame infinite."""
    frame.rows = np.float32(np.inf).tobytes() + frame.rows[4:]


CHEATS: dict[str, tuple[tuple[str, ...], Callable[[Liar], list[bytes]]]] = {
    "another code": (GRID, lambda host: [host.frame(Layout("sign", scales=1, numbers=P, bits=1))]),
    "fewer numbers": (GRID, lambda host: [host.frame(Layout("grid", numbers=P - 1), number=200)]),
    "another width than stated": (GRID, lambda host: [host.altered(OF_GRID, set_field("bits", 9))]),
    "a width that no number has": (GRID, lambda host: [host.altered(OF_GRID, set_field("bits", 65))]),
    "fewer rows than agents": (GRID, lambda host: [host.altered(OF_GRID, set_field("count", 1))]),
    "more rows than fit anywhere": (GRID, lambda host: [host.altered(OF_GRID, set_field("count", 1 << 31))]),
    "whose rows there are, where all are": (GRID, lambda host: [host.altered(OF_GRID, set_field("sent", b"\x03"))]),
    "numbers out of range": (GRID, lambda host: [host.frame(OF_GRID, number=1 << 60)]),
    "rows as they are": (GRID, lambda host: [host.rows(host.round)]),
    "levels above the highest": (LEVELS, lambda host: [host.rows(host.round - 1), host.frame(OF_LEVELS, number=99)]),
    "a norm that is no number": (LEVELS, lambda host: [host.rows(host.round - 1), host.altered(OF_LEVELS, infinite)]),
    "a negative norm": (LEVELS, lambda host: [host.rows(host.round - 1), host.frame(OF_LEVELS, scale=-1.0)]),
    "a round left out": (LEVELS, lambda host: [host.rows(host.round - 1), host.frame(OF_LEVELS, ahead=1)]),
    "a beginning without copies": (LEVELS, lambda host: [host.frame(OF_LEVELS)]),
    "copies once more": (LEVELS, lambda host: [host.rows(host.round - 1), host.rows(host.round)]),
    "no agents at the beginning": (GRID, lambda host: [host.altered(OF_GRID, set_field("agents", b""))]),
}


@pytest.mark.parametrize("settings", [GRID, LEVELS], ids=["without memory", "with memory"])
async def test_frames_that_are_not_in_the_code_are_refused_and_the_game_goes_on(
    settings: tuple[str, ...], tmp_path: Path
) -> None:
    verdicts: dict[str, Verdict] = {}
    cheats = {what: messages for what, (where, messages) in CHEATS.items() if where == settings}
    async with playing(small_spec(*settings, rounds=None), tmp_path / "game", hosts=3) as game:
        insider = await GOSSIP.find(game)
        await game.until(lambda status: status.round > 2 * LIMITS.window)
        for what, messages in cheats.items():
            liar = Liar(insider, OVER)
            verdicts[what] = await converse(insider.address, GOSSIP.method, [liar.opens(), *messages(liar)])
            await game.goes_on()
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert {what: verdict.error for what, verdict in verdicts.items()} == dict.fromkeys(cheats, "Malformed")
