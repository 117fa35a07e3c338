"""What every process of a game tells to Prometheus is what the run folder says, and what the other end has counted."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from tests.support.services import DEADLINE, LOOPBACK, REVEAL, Game, converse, small_spec

from slaternet import codec
from slaternet.errors import BadSpec
from slaternet.model import Finished, Head, Progress, Usage
from slaternet.network.certificates import LOOPBACK as PLAIN
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.network.server import serve
from slaternet.network.stream import Stream
from slaternet.network.traffic import PREFIX, Traffic
from slaternet.service.config import ProcessConfig
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.shell.service import CoordinatorService
from slaternet_lab import Run

T = 40  # within the window: everything is published before anything is scored
HOSTS = ("agent-1", "agent-2")


class Relay:
    """Stands between a process and a server, and keeps to itself what the process says while `gate` is closed."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.gate = asyncio.Event()
        self.gate.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        listener = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        try:
            yield "{}:{}".format(*listener.sockets[0].getsockname())
        finally:
            listener.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._server.rpartition(":")
        back, forth = await asyncio.open_connection(host, int(port))
        self._tasks |= {
            asyncio.create_task(_pump(reader, forth, self.gate)),
            asyncio.create_task(_pump(back, writer, None)),
        }


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event | None) -> None:
    try:
        while data := await reader.read(1 << 16):
            if gate is not None:
                await gate.wait()
            writer.write(data)
    finally:
        writer.close()


class Told:
    """What one process tells."""

    def __init__(self, url: str) -> None:
        with urlopen(url, timeout=DEADLINE) as reply:
            text = reply.read().decode()
        self._samples = [each for family in text_string_to_metric_families(text) for each in family.samples]

    def __getitem__(self, name: str) -> float:
        """Return a number, summed over its labels."""
        return sum(value for _, value in self._of(name))

    def by(self, name: str, label: str) -> dict[str, float]:
        return {labels[label]: value for labels, value in self._of(name)}

    def labels(self, name: str) -> dict[str, str]:
        ((labels, _),) = self._of(name)
        return labels

    def _of(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        return ((each.labels, each.value) for each in self._samples if each.name == f"slaternet_{name}")


@pytest.fixture
async def at_rest(tmp_path: Path) -> AsyncIterator[tuple[dict[str, Told], Run]]:
    """Play a game until all is played, sent and written down, while the coordinator does not know it yet."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ending, tasks = asyncio.Event(), []
    with capture_logs() as log:
        spec = small_spec(rounds=T)
        coordinator = ProcessConfig("coordinator", listen=LOOPBACK, metrics=LOOPBACK)
        service = CoordinatorService(spec, coordinator, hosts=len(HOSTS), ready=ready.set_result)
        tasks.append(asyncio.create_task(service.run(ending)))
        address = await ready
        relay = Relay(address)
        async with relay.listening() as detour:
            game = Game(address, tmp_path / "run", tasks, "")
            for name in HOSTS:
                config = ProcessConfig(name, address, LOOPBACK, metrics=LOOPBACK)
                tasks.append(asyncio.create_task(HostService(config).run(ending)))
            await game.until(lambda status: sum(each.connected for each in status.hosts) == len(HOSTS))
            config = ProcessConfig("adversary", detour, LOOPBACK, metrics=LOOPBACK)
            tasks.append(asyncio.create_task(AdversaryService(config, game.folder, metrics_values=True).run(ending)))
            status = await game.until(lambda status: status.phase == "playing")
            relay.gate.clear()
            (adversary,) = [each.address for each in status.hosts if each.role == "adversary"]
            await converse(adversary, REVEAL.method, [b"\xff"])
            await game.until(lambda status: [each.round for each in status.hosts if each.seats] == [T] * len(HOSTS))
            await game.until(lambda _: (game.folder / "summary.json").exists())

            urls = [entry["url"] for entry in log if entry["event"] == "metrics"]
            told = [await asyncio.to_thread(Told, url) for url in urls]
            yield {each.labels("process_info")["name"]: each for each in told}, Run.open(game.folder)

            relay.gate.set()
            await game.over()


def last_words(run: Run, name: str) -> set[int]:
    """Return the sizes that what a host sends after its last round may have: one report may be left out."""
    head = Head(run.summary["run"], 1, T, name)
    cost = run.summary["network"]["hosts"][name]
    names = "frames", "bytes_sent", "bytes_received", "waited", "rows_sent", "gossip_bytes"
    usage = Usage(T, *(cost[each] for each in names))
    progress = codec.encode_control_up(head, Progress(T))
    words = [*codec.encode_reveal_up(head, usage), progress, codec.encode_control_up(head, Finished())]
    size = sum(len(word) + PREFIX for word in words)
    return {size, size + len(progress) + PREFIX}


async def test_every_process_tells_what_the_run_folder_says(at_rest: tuple[dict[str, Told], Run]) -> None:
    told, run = at_rest
    network, metrics = run.summary["network"], run.metrics
    hosts, adversary = {name: told[name] for name in HOSTS}, told["adversary"]

    # rounds
    assert run.rounds == T
    assert [each["rounds_finished_total"] for each in hosts.values()] == [T, T]
    assert adversary["rounds_recorded_total"] == T
    assert told["coordinator"]["rounds_published_total"] == T
    assert told["coordinator"].by("member_round", "member") == {"agent-1": T, "agent-2": T, "adversary": 0}

    # frames and bytes of hosts: all but the last words, which told what the last round has cost
    assert metrics["frames"].sum() == sum(each["frames_sent_total"] for each in hosts.values()) > 0
    for name, each in hosts.items():
        cost = network["hosts"][name]
        assert cost["frames"] == each["frames_sent_total"]
        assert cost["rows_sent"] == each["rows_sent_total"]
        assert cost["gossip_bytes"] == each["gossip_bytes_total"] <= cost["bytes_sent"]
        assert cost["bytes_received"] == each["received_bytes_total"]
        assert each["sent_bytes_total"] - cost["bytes_sent"] in last_words(run, name)
    for column in ("frames", "bytes_sent", "bytes_received", "rows_sent", "gossip_bytes"):
        assert metrics[column].sum() == network[column] == sum(each[column] for each in network["hosts"].values())

    # waits: for each other as in the folder, for the adversary as long as reveals have taken
    for name, each in hosts.items():
        waited = each.by("waited_seconds_total", "peer")
        assert each["reveal_seconds_count"] == T
        assert each["reveal_seconds_sum"] == pytest.approx(waited.pop("adversary"))
        assert sum(waited.values()) == pytest.approx(network["hosts"][name]["waited"])
    assert metrics["waited"].sum() == pytest.approx(network["waited"], abs=1e-6 * T)

    # skew and lag
    assert adversary["skew_seconds_total"] == pytest.approx(metrics["skew"].sum(), abs=1e-6 * T)
    lags = {name: T * network["hosts"][name]["lag"] for name in HOSTS}
    assert adversary.by("lag_seconds_total", "host") == pytest.approx(lags)
    assert sum(lags.values()) == pytest.approx(metrics["skew"].sum(), abs=1e-6 * T)  # of two hosts one lags

    # scores and refusals
    assert adversary["cumulative_loss"] == run.summary["cumulative_loss"]
    assert adversary["cumulative_violation"] == run.summary["cumulative_violation"]
    assert adversary.by("refusals_total", "kind") == run.summary["breaches"] == {"Malformed": 1}


async def test_what_one_end_has_sent_the_other_has_received(at_rest: tuple[dict[str, Told], Run]) -> None:
    told, _ = at_rest
    hosts, adversary = [told[name] for name in HOSTS], told["adversary"]

    for what, garbage in (("bytes", 1 + PREFIX), ("messages", 1)):
        sent, received = ([each.by(f"{way}_{what}_total", "stream") for each in hosts] for way in ("sent", "received"))
        assert [each["gossip"] for each in sent] == [each["gossip"] for each in received[::-1]]
        asked = adversary.by(f"received_{what}_total", "stream")["reveal"] - garbage
        assert asked == sum(each["reveal"] for each in sent)
        assert adversary.by(f"sent_{what}_total", "stream")["reveal"] == sum(each["reveal"] for each in received)
    assert [each["frames_received_total"] for each in hosts] == [each["frames_sent_total"] for each in hosts[::-1]]


async def test_every_process_says_which_it_is_and_how_it_is_connected(at_rest: tuple[dict[str, Told], Run]) -> None:
    told, run = at_rest

    assert {name: each.labels("process_info")["role"] for name, each in told.items()} == {
        "coordinator": "coordinator",
        "adversary": "adversary",
        "agent-1": "host",
        "agent-2": "host",
    }
    for each in told.values():
        game = each.labels("game_info")
        assert (game["run"], game["game"], game["algorithm"]) == (run.summary["run"], "paper-short", "zhang2024")
        assert each["reconnections_total"] == 0
    assert {name: each.by("open_streams", "stream") for name, each in told.items()} == {
        "coordinator": {"control": 3},
        "adversary": {"control": 1, "reveal": 2},
        "agent-1": {"control": 1, "gossip": 1, "reveal": 1},
        "agent-2": {"control": 1, "gossip": 1, "reveal": 1},
    }
    assert [told[name]["seats"] for name in HOSTS] == [3, 3]
    assert told["coordinator"].by("member_seats", "member") == {"agent-1": 3, "agent-2": 3, "adversary": 0}
    assert told["coordinator"].by("member_connected", "member") == {"agent-1": 1, "agent-2": 1, "adversary": 1}
    assert [phase for phase, is_now in told["coordinator"].by("phase", "phase").items() if is_now] == ["playing"]


async def test_a_line_counts_how_often_it_was_up_again() -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def greet(link: Stream) -> None:
        link.send(b"hello")
        await link.read()  # the opening
        await link.read()  # and the word to leave

    server = await serve(LOOPBACK, service="test.Test", unary={}, streams={"Talk": greet}, hosts=1)
    line = ReconnectingStream(
        "server",
        server.address,
        "/test.Test/Talk",
        security=PLAIN,
        traffic=Traffic(),
        opening=lambda: b"opening",
        heartbeat=lambda: b"",
        on_message=lambda data: heard.put_nowait(line.reconnections),
    )
    assert (line.up, line.reconnections) == (False, 0)
    running = asyncio.create_task(line.run())
    try:
        async with asyncio.timeout(DEADLINE):
            for again in range(3):
                await heard.get()
                await asyncio.sleep(0)  # the line takes note of what it has handed on
                assert (line.up, line.reconnections) == (True, again)
                line.send(b"leave")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop()


@pytest.mark.parametrize("service", [HostService, lambda config: AdversaryService(config, None)])
async def test_a_port_that_is_taken_stops_a_process_before_it_does_anything(
    service: Callable[[ProcessConfig], HostService | AdversaryService],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = "{}:{}".format(*taken.getsockname())
        with pytest.raises(BadSpec, match=f"cannot serve metrics on {metrics} "):
            await service(ProcessConfig("agent-1", "127.0.0.1:1", LOOPBACK, metrics=metrics)).run(asyncio.Event())
