"""What goes wrong at a host ends its part, elsewhere the game, with the cause; what breaks a stream ends nothing."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from textwrap import dedent
from unittest import mock

import pytest
from tests.support.faulty import GRAPH, HALVED, written
from tests.support.services import DEADLINE, LOOPBACK, Game, Gathering, digest, gathering, reference, small_spec

from slaternet.errors import Mismatch, OutsideSet, PluginFailed, RunFailed, SlaternetError
from slaternet.service.config import ProcessConfig
from slaternet.spec import Spec, plugins
from slaternet_adversary.engine.events import RecordRound
from slaternet_adversary.plugin.makers import GROUP
from slaternet_adversary.shell.run_folder import RunFolder
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService

EVE = "adversary"
COORDINATOR = "coordinator"


pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")


# Games that end badly


class Company:
    """The services of a game by name."""

    def __init__(self, gathered: Gathering, game: Game) -> None:
        self.gathered = gathered
        self.game = game
        self.names = [COORDINATOR]

    async def admit(self, name: str, service: HostService | AdversaryService) -> None:
        """Start a service and wait until a host is there: seats go in the order of joining."""
        self.gathered.start(service)
        self.names.append(name)
        if isinstance(service, HostService):
            await self.game.until(lambda status: name in {each.name for each in status.hosts if each.connected})

    async def loses(self, name: str) -> SlaternetError:
        """Wait until a host has failed and the others wait for its successor; return how it failed."""
        async with asyncio.timeout(DEADLINE):
            [failed] = await asyncio.gather(self.gathered.tasks[self.names.index(name)], return_exceptions=True)
        assert isinstance(failed, SlaternetError)
        status = await self.game.until(lambda status: status.waiting_for.startswith(f"{name}, shut out for "))
        [why] = [each.shut_out for each in status.hosts if each.shut_out]
        assert why == f"{name}: {failed.told}"
        assert [task.done() for task in self.gathered.tasks].count(True) == 1
        return failed

    async def ends(self) -> dict[str, SlaternetError]:
        """Wait until every service has failed; return how."""
        async with asyncio.timeout(DEADLINE):
            outcomes = await asyncio.gather(*self.gathered.tasks, return_exceptions=True)
        failures = dict(zip(self.names, outcomes, strict=True))
        assert all(isinstance(each, SlaternetError) for each in outcomes), failures
        return {name: each for name, each in failures.items() if isinstance(each, SlaternetError)}


@asynccontextmanager
async def company(spec: Spec, folder: Path, *, hosts: int) -> AsyncIterator[Company]:
    """Start every service of a game."""
    async with gathering(spec, hosts=hosts) as gathered:
        services = Company(gathered, Game(gathered.address, folder, gathered.tasks, ""))
        for number in range(1, hosts + 1):
            await services.admit(
                name := f"agent-{number}", HostService(ProcessConfig(name, gathered.address, LOOPBACK))
            )
        await services.admit(EVE, AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), folder))
        yield services


def algorithm(folder: Path, name: str, method: str) -> str:
    """Write an algorithm that is the paper's but for one method."""
    head = f"from slaternet_agent.algorithms.zhang2024 import Decision, Zhang2024\n\nclass {name}(Zhang2024):\n"
    return written(folder, name, head + "".join(f"    {line}\n" for line in dedent(method).splitlines()))


async def test_a_question_that_is_refused_for_ever_ends_the_part_of_its_host_with_the_refusal(tmp_path: Path) -> None:
    far = """
    def decide(self, state, gossip, t):
        decision = super().decide(state, gossip, t)
        away = 100.0 * (t == 5 and 0 in state.agents)
        return Decision(decision.x + away, decision.points)
    """
    spec = small_spec(f"algorithm.name={algorithm(tmp_path, 'Far', far)}", rounds=None)

    async with company(spec, tmp_path / "game", hosts=2) as services:
        failure = await services.loses("agent-1")

    assert isinstance(failure, OutsideSet)
    assert str(failure) == "decisions and points must lie in the feasible set"


@pytest.mark.parametrize("hosts", [1, 2, 3])
@pytest.mark.parametrize(("method", "arguments"), [("decide", "gossip, t"), ("update", "decision, seen, t")])
async def test_an_algorithm_that_raises_ends_the_part_of_its_host_and_the_game_of_the_last(
    method: str, arguments: str, hosts: int, tmp_path: Path
) -> None:
    raising = f"""
    def {method}(self, state, {arguments}):
        if t == 5 and 5 in state.agents:
            raise ZeroDivisionError("no more")
        return super().{method}(state, {arguments})
    """
    target = algorithm(tmp_path, "Raising", raising)
    spec = small_spec(f"algorithm.name={target}", "graph.name=complete", "graph.rho=", rounds=None)

    culprit = f"agent-{hosts}"  # the last seats are there; its gossip streams are all opened by others
    async with company(spec, tmp_path / "game", hosts=hosts) as services:
        failures = await services.ends() if hosts == 1 else {culprit: await services.loses(culprit)}

    sentence = str(failures[culprit])
    assert isinstance(failures[culprit], PluginFailed)
    assert sentence.startswith(f"the algorithm {target} failed: {method} of round 5 for agent")
    assert " raised ZeroDivisionError: no more, at " in sentence
    for name in failures.keys() - {culprit}:
        assert isinstance(failures[name], RunFailed)
        told = f"the algorithm {target} failed in {method} of round 5; the log of its process says why"
        assert str(failures[name]) == f"the game failed: {culprit}: {told}"  # and no line of its code


async def test_where_an_algorithm_raises_everywhere_the_game_ends_for_all(tmp_path: Path) -> None:
    raising = """
    def decide(self, state, gossip, t):
        raise ZeroDivisionError("no more")
    """
    spec = small_spec(f"algorithm.name={algorithm(tmp_path, 'Never', raising)}", rounds=None)

    async with company(spec, tmp_path / "game", hosts=3) as services:
        failures = await services.ends()

    assert all(isinstance(failures[f"agent-{number}"], PluginFailed) for number in (1, 2, 3))
    for name in (COORDINATOR, EVE):
        assert isinstance(failures[name], RunFailed)
        assert str(failures[name]).startswith("the game failed: agent-")


@pytest.mark.parametrize(
    ("first", "fault", "sentence"),
    [
        (
            70,
            HALVED,
            "graph.name gives weights whose row 0 sums to 0.5 in round 70, not 1; correct the graph's weights",
        ),
        (1, HALVED, "graph.name gives weights whose row 0 sums to 0.5 in round 1, not 1; correct the graph's weights"),
        (70, 'raise KeyError("lost")', "the graph {first}; the log of its process says why"),
        (1, 'raise KeyError("lost")', "the graph {first}; the log of its process says why"),
    ],
    ids=["not stochastic later", "not stochastic at once", "raises later", "raises at once"],
)
async def test_a_graph_that_goes_wrong_fails_the_game_with_one_sentence(
    first: int, fault: str, sentence: str, tmp_path: Path
) -> None:
    target = written(tmp_path, "Faulty", GRAPH.format(first=first, fault=fault))
    # not resolved: that it goes wrong may show only in the game
    spec = small_spec(rounds=None).replace(**{"graph.name": target, "graph.rho": None})

    async with company(spec, tmp_path / "game", hosts=2) as services:
        failures = await services.ends()

    before, _, after = sentence.partition("{first}")
    assert len(failures) == 4
    for name, failure in failures.items():
        assert isinstance(failure, RunFailed)
        assert str(failure).startswith(f"the game failed: {before}")
        if name == COORDINATOR and "KeyError" in fault:  # its operator alone is told where
            assert "raised KeyError: 'lost', at " in str(failure)
        else:
            assert str(failure).endswith(after)


async def test_the_first_failure_of_a_plugin_is_told_and_its_later_rounds_are_not_played(tmp_path: Path) -> None:
    code = """
    from slaternet_adversary.builtin.linear_regression import LinearRegression

    class Moody(LinearRegression):
        played = []

        def play(self, round, past):
            self.played.append(round)
            if round >= 5:
                raise RuntimeError(f"I give up in round {round}")
            return super().play(round, past)
    """
    target = written(tmp_path, "Moody", code)
    spec = small_spec(f"adversary.plugin={target}", "adversary.isolation=none", rounds=None)

    async with company(spec, tmp_path / "game", hosts=2) as services:
        failures = await services.ends()

    assert isinstance(failures[EVE], PluginFailed)
    assert str(failures[EVE]).startswith(
        "the adversary plugin Moody failed: play of round 5 raised RuntimeError: I give up in"
    )
    assert str(failures[EVE]).endswith(f"slaternet adversary-call {target} {tmp_path / 'game'}")
    for name in failures.keys() - {EVE}:
        assert isinstance(failures[name], RunFailed)
        assert str(failures[name]) == "the game failed: adversary: it cannot go on; its own log says why"
    assert plugins.load(GROUP, target, key="adversary.plugin").factory.played == [1, 2, 3, 4, 5]


async def test_a_run_folder_that_is_full_ends_the_game_by_its_name(tmp_path: Path) -> None:
    record, folder = RunFolder.record, tmp_path / "game"

    def fill(results: RunFolder, row: RecordRound, seconds: float) -> None:
        if row.round == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        record(results, row, seconds)

    with mock.patch.object(RunFolder, "record", fill):
        async with company(small_spec(rounds=None), folder, hosts=2) as services:
            failures = await services.ends()

    assert isinstance(failures[EVE], RunFailed)
    assert str(failures[EVE]) == (
        f"cannot write to the run folder {folder}: No space left on device; mend that and play again"
    )
    for name in failures.keys() - {EVE}:
        assert str(failures[name]) == "the game failed: adversary: it cannot go on; its own log says why"
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + 2  # what was recorded stays


async def test_an_algorithm_that_is_not_the_one_of_the_spec_is_refused_with_both_hashes(tmp_path: Path) -> None:
    target = algorithm(tmp_path, "Other", "pass")
    spec = small_spec(f"algorithm.name={target}", rounds=None)
    here, there = spec.algorithm.sha256, "0123456789abcdef" * 4
    spec = spec.replace(**{"algorithm.sha256": there})

    async with company(spec, tmp_path / "game", hosts=2) as services:
        failures = await services.ends()

    sentence = (
        f"algorithm {target} has SHA-256 {here[:16]} here and {there[:16]} in the spec; "
        "bring the same file, and what it imports, to every host"
    )
    for name in ("agent-1", "agent-2"):
        assert (type(failures[name]), str(failures[name])) == (Mismatch, sentence)
    for name in (COORDINATOR, EVE):
        assert isinstance(failures[name], RunFailed)
        assert str(failures[name]) in [f"the game failed: agent-{number}: {sentence}" for number in (1, 2)]


async def test_a_host_whose_copy_of_an_imported_file_differs_is_refused_with_both_hashes(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("GAIN = 1.0\n")
    target = algorithm(tmp_path, "Helped", "import helper")
    spec = small_spec(f"algorithm.name={target}", rounds=None)
    there = spec.algorithm.sha256
    helper.write_text("GAIN = 2.0\n")  # as on a machine to which an older one was copied
    here = plugins.digest("slaternet.algorithms", target, key="algorithm.name")

    async with company(spec, tmp_path / "game", hosts=2) as services:
        failures = await services.ends()

    assert here != there
    for name in ("agent-1", "agent-2"):
        assert isinstance(failures[name], Mismatch)
        assert f"has SHA-256 {here[:16]} here and {there[:16]} in the spec;" in str(failures[name])


# A control stream that is down for long


class Bridge:
    """A way to a server that can lose what is sent there, and be broken off."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._losing = False

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[str]:
        """Carry both ways between the server and whoever connects to the address yielded."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            await self.break_off()

    def lose(self) -> None:
        """Let nothing more through to the server; what comes from there still comes."""
        self._losing = True

    async def break_off(self) -> None:
        """End every connection; the next one loses nothing."""
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._pumps)
        self._writers.clear()
        self._pumps.clear()
        self._losing = False

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, onward}
        for source, sink, up in ((reader, onward, True), (there, writer, False)):
            self._pumps.add(asyncio.create_task(self._pump(source, sink, up=up)))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if not (up and self._losing):
                    writer.write(data)
                    await writer.drain()
        writer.close()


def rows(folder: Path) -> int:
    """Return how many rounds are recorded."""
    return len((folder / "metrics.csv").read_text().splitlines()) - 1


async def test_a_host_that_has_played_out_its_window_without_the_coordinator_goes_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "game"
    async with AsyncExitStack() as stack:
        gathered = await stack.enter_async_context(gathering(small_spec(rounds=None), hosts=2))
        game, bridge = Game(gathered.address, folder, gathered.tasks, ""), Bridge(gathered.address)
        address = await stack.enter_async_context(bridge.standing())
        gathered.start(HostService(ProcessConfig("agent-1", address, LOOPBACK)))
        gathered.start(HostService(ProcessConfig("agent-2", gathered.address, LOOPBACK)))
        gathered.start(AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), folder))
        await game.until(lambda status: status.round > 0)

        bridge.lose()
        # the last round that is published is played, and the coordinator does not hear of it
        await game.until(lambda status: rows(folder) == status.published)
        await bridge.break_off()
        await game.outlives_its_window()

        await game.stop()
        run = await game.over()
    assert digest(run) == reference(run.spec, tmp_path / "simulation")
