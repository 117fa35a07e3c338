"""Plugins that misbehave, each in a real worker: the adversary survives, and says to whom it may what happened."""

import asyncio
import fcntl
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support import misbehaving
from tests.support.services import DEADLINE, LOOPBACK, Game, Gathering, digest, gathering, reference, small_spec

from slaternet.errors import BadSpec, OutsideSet, PluginFailed, RunFailed, SlaternetError
from slaternet.limits import LIMITS
from slaternet.service.config import ProcessConfig
from slaternet.spec import Spec
from slaternet_adversary.plugin import makers as build
from slaternet_adversary.plugin import sandbox
from slaternet_adversary.shell.run_folder import COLUMNS
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_lab import Run

ROUNDS = 8
TOLD = "the game failed: adversary: it cannot go on; its own log says why"


@cache
def plain() -> Spec:
    return small_spec(rounds=ROUNDS)


def spec_of(how: str, where: object = "", **changes: object) -> Spec:
    """Return the spec of a misbehaviour; resolving it would start another worker to no purpose."""
    target = f"{misbehaving.__file__}:Misbehaves"
    adversary = {"plugin": target, "isolation": "process", "options": {"how": how, "where": str(where)}}
    return plain().replace(**{"adversary": adversary, **changes})


@asynccontextmanager
async def game(spec: Spec, folder: Path, *, hosts: int = 1) -> AsyncIterator[Gathering]:
    """Start every service: the coordinator, the hosts and last the adversary."""
    async with gathering(spec, hosts=hosts) as gathered:
        for number in range(1, hosts + 1):
            gathered.start(HostService(ProcessConfig(f"agent-{number}", gathered.address, LOOPBACK)))
        gathered.start(AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), folder))
        yield gathered


async def outcome(spec: Spec, folder: Path, *, hosts: int = 1) -> list[int | BaseException]:
    """Play to the end; return how coordinator, hosts and adversary have left."""
    async with game(spec, folder, hosts=hosts) as gathered, asyncio.timeout(DEADLINE):
        return await asyncio.gather(*gathered.tasks, return_exceptions=True)


async def failure(spec: Spec, folder: Path, recorded: int = misbehaving.ROUND - 1) -> str:
    """Play a game that must fail after at most so many rounds; return what the operator of the adversary hears."""
    *others, adversary = await outcome(spec, folder)
    assert isinstance(adversary, PluginFailed), adversary
    assert adversary.exit_code == 6
    for other in others:  # the coordinator's operator, and the agents'
        assert isinstance(other, RunFailed)
        assert str(other) == TOLD
    rows = (folder / "metrics.csv").read_text().splitlines(keepends=True)[1:]
    assert len(rows) <= recorded  # what was recorded stays, whole
    assert all(len(row.split(",")) == len(COLUMNS) and row.endswith("\n") for row in rows)
    assert "\n" not in str(adversary)
    return str(adversary)


async def success(spec: Spec, folder: Path) -> Run:
    """Play a game that must end well."""
    outcomes = await outcome(spec, folder)
    assert set(outcomes) == {0}, outcomes
    return Run.open(folder)


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give workers what they need to fail soon, and no more."""
    monkeypatch.setattr(build, "LIMITS", replace(LIMITS, plugin_memory_bytes=1 << 30, plugin_files=64))


@pytest.fixture(params=["with namespaces", "without namespaces"])
def namespaced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether workers get namespaces; both are tried where the system has any."""
    if request.param == "without namespaces":
        monkeypatch.setattr(sandbox, "namespaces", lambda: "this test forbids them")
        return False
    if hindrance := sandbox.namespaces():
        pytest.skip(hindrance)
    return True


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", ["ArithmeticError", misbehaving.WORDS]),
        ("leaves", ["SystemExit", misbehaving.WORDS]),
        (
            "exits",
            ["ended with its process", "; its process ended with exit code 17; to ask that call again: slaternet"],
        ),
        (
            "crashes",
            ["ended with its process", "; its process was killed by SIGSEGV; to ask that call again: slaternet"],
        ),
        ("kills_itself", ["it was played again 5 times", "lost each time; its process was killed by SIGKILL"]),
        ("says_nan", ["returned nan, which is not finite, at ", "misbehaving.py:"]),
        ("says_too_little", ["wrong shape: expected (k, s) = ", "misbehaving.py:"]),
        ("says_words", ["returned list where an array of float64 was due, at "]),
        ("grabs", ["MemoryError"]),
        ("opens", ["OSError", "Too many open files"]),
    ],
)
async def test_a_plugin_that_fails_is_named_with_its_round_to_the_operator_alone(
    how: str, words: list[str], confined: None, tmp_path: Path
) -> None:
    sentence = await failure(spec_of(how), tmp_path / "game")

    for word in ["adversary plugin Misbehaves failed", f"round {misbehaving.ROUND}", *words]:
        assert word in sentence


@pytest.mark.slow
async def test_while_a_plugin_hangs_the_adversary_lives_and_at_the_deadline_the_game_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "LIMITS", replace(LIMITS, plugin_seconds=6.0))
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.05)  # what is looked at: whether the loop goes on
            beats += 1

    async with game(spec_of("hangs", tmp_path / "hangs"), tmp_path / "game") as gathered, asyncio.timeout(DEADLINE):
        beating = asyncio.create_task(beat())
        *_, adversary = await asyncio.gather(*gathered.tasks, return_exceptions=True)
        beating.cancel()

    assert isinstance(adversary, PluginFailed)
    assert f"loss or constraint of round {misbehaving.ROUND} for agents" in str(adversary)
    assert "has not answered within 6 seconds (adversary.seconds); make it faster" in str(adversary)
    assert beats > 20


async def test_a_game_that_is_left_while_its_plugin_hangs_ends_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "game"
    async with gathering(spec_of("hangs", tmp_path / "hangs"), hosts=1) as gathered, asyncio.timeout(DEADLINE):
        gathered.start(HostService(ProcessConfig("agent-1", gathered.address, LOOPBACK)))
        stop = asyncio.Event()
        service = AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), folder)
        adversary = asyncio.create_task(service.run(stop))
        await Game(gathered.address, folder, [], "").until(lambda status: (tmp_path / "hangs").exists())
        stop.set()
        begun = asyncio.get_running_loop().time()

        assert await adversary == 130
        assert asyncio.get_running_loop().time() - begun < LIMITS.plugin_seconds / 4


@pytest.mark.parametrize("how", ["prints", "guesses"])
async def test_a_plugin_may_print_and_one_that_guesses_is_played_as_it_answers(how: str, tmp_path: Path) -> None:
    run = await success(spec_of(how), tmp_path / "game")

    assert run.summary is not None
    assert run.summary["rounds"] == ROUNDS


async def test_a_plugin_may_write_files_where_it_likes(tmp_path: Path) -> None:
    await success(spec_of("writes", tmp_path / "note"), tmp_path / "game")

    assert (tmp_path / "note").read_text() == "written"


async def test_what_a_plugin_has_started_ends_with_the_game(namespaced: bool, tmp_path: Path) -> None:
    await success(spec_of("forks", tmp_path / "children"), tmp_path / "game")

    with (tmp_path / "children").open() as file:
        assert len(file.readlines()) >= 2
        fcntl.flock(file, fcntl.LOCK_EX)  # each child holds it as long as it lives


async def test_a_plugin_that_kills_its_parent_does_not_reach_the_adversary(namespaced: bool, tmp_path: Path) -> None:
    await success(spec_of("kills_its_parent"), tmp_path / "game")  # the one between: nobody needs it


async def test_a_plugin_has_no_network_where_the_system_permits(namespaced: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        spec = spec_of("calls_out", f"127.0.0.1:{server.getsockname()[1]}")
        if namespaced:
            assert "OSError" in await failure(spec, tmp_path / "game")
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()
        else:
            await success(spec, tmp_path / "game")


async def test_one_log_line_says_that_there_are_no_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox, "namespaces", lambda: "this test forbids them")
    with capture_logs() as logs:
        await failure(spec_of("raises"), tmp_path / "game")

    assert [each["reason"] for each in logs if "network" in each["event"]] == ["this test forbids them"]


FAR = """
from slaternet_agent.algorithms.zhang2024 import Decision, Zhang2024

class Far(Zhang2024):
    def decide(self, state, gossip, t):
        decision = super().decide(state, gossip, t)
        away = 100.0 * (t == 5 and 0 in state.agents)
        return Decision(decision.x + away, decision.points)
"""


async def test_a_refusal_ends_the_stream_of_who_caused_it_also_where_the_plugin_plays_apart(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(FAR)
    spec = spec_of("prints", **{"algorithm.name": f"{tmp_path / 'far.py'}:Far", "algorithm.sha256": None})

    async with game(spec, tmp_path / "game", hosts=2) as gathered, asyncio.timeout(DEADLINE):
        _, *hosts, _ = gathered.tasks
        ended, others = await asyncio.wait(hosts, return_when=asyncio.FIRST_COMPLETED)
        played = Game(gathered.address, tmp_path / "game", gathered.tasks, "")
        status = await played.until(lambda status: any(each.shut_out for each in status.hosts))

    [refused] = [each.exception() for each in ended]
    assert isinstance(refused, OutsideSet)
    assert len(others) == 1
    assert next(each.shut_out for each in status.hosts if each.shut_out).endswith(f": {refused}")


async def test_a_plugin_apart_is_played_to_the_bits_of_one_in_the_process(tmp_path: Path) -> None:
    spec = plain().replace(**{"adversary.isolation": "process", "run.rounds": 60})
    async with game(spec, tmp_path / "game", hosts=3) as gathered:
        run = await Game(gathered.address, tmp_path / "game", gathered.tasks, "").over()

    here = spec.replace(**{"adversary.isolation": "none"})
    assert digest(run) == reference(here, tmp_path / "simulation")
    again = Run.open(tmp_path / "simulation")
    assert run.summary is not None
    assert again.summary is not None
    for key in ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation"):
        assert run.summary[key] == again.summary[key]


async def test_a_plugin_that_cannot_be_made_ends_the_adversary_with_its_sentence(tmp_path: Path) -> None:
    spec = spec_of("raises").replace(**{"adversary.options": {"hw": "raises"}})
    async with gathering(spec, hosts=1) as gathered, asyncio.timeout(DEADLINE):
        config = ProcessConfig("adversary", gathered.address, LOOPBACK)
        with pytest.raises(
            SlaternetError, match=r"^adversary\.options\.hw is not an option of Misbehaves; did you mean how"
        ):
            await AdversaryService(config, tmp_path / "game").run(asyncio.Event())


async def test_a_plugin_elsewhere_is_not_asked_in_plaintext_over_the_network(tmp_path: Path) -> None:
    spec = spec_of("raises").replace(**{"adversary.plugin": "grpc://10.1.2.3:5", "adversary.options": {}})
    async with gathering(spec, hosts=1) as gathered, asyncio.timeout(DEADLINE):
        service = AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), tmp_path / "game")
        with pytest.raises(BadSpec, match=r'^adversary\.plugin = "grpc://10.1.2.3:5" is not on loopback.*--insecure'):
            await service.run(asyncio.Event())
