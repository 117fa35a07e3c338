"""A flood of the servers of a game, as a process of its own: connections that say nothing, or streams without a ticket.

`python -m tests.support.flood KIND TOTAL AT_ONCE NAME=HOST:PORT/METHOD ...` floods these servers on loopback by turns.
It prints what it has counted as lines of JSON: when it first has as many open as it may, at every twentieth of its way,
and at its end.
"""

import argparse
import asyncio
import json
import math
import os
import resource
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import grpc.aio
from tests.support.http2 import PREFACE

from slaternet.network.certificates import identity_of, read

SPARE_FILES = 1024
"""What a process needs besides the connections of a flood."""

_CHANNELS = 8  # to each server, so that no limit of one connection binds
_LATE = 900.0


@dataclass(frozen=True)
class Target:
    """A server that is flooded."""

    name: str
    address: str
    method: str

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Return what NAME=HOST:PORT/METHOD says."""
        name, _, rest = text.partition("=")
        address, slash, method = rest.partition("/")
        assert address.startswith("127."), "only loopback is flooded"
        return cls(name, address, slash + method)

    def __str__(self) -> str:
        return f"{self.name}={self.address}{self.method}"


# In the process that starts a flood


def files_allowed() -> int:
    """Return how many files a process of this user may open."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


class FloodProcess:
    """A flood that was started, and what it has counted so far."""

    def __init__(self, popen: "subprocess.Popen[bytes]", log: Path, total: int, at_once: int) -> None:
        self._popen = popen
        self._log = log
        self._total = total
        self._at_once = at_once

    @property
    def flows(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    @property
    def counts(self) -> dict[str, int]:
        """What it has said last."""
        lines = [line for line in self._log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return dict(json.loads(lines[-1])) if lines else {"ended": 0, "most_at_once": 0}

    @property
    def full(self) -> bool:
        """Whether it has had all that it may open at once."""
        return self.counts["most_at_once"] >= self._at_once

    @property
    def left(self) -> float:
        """How many seconds it may still last, at the pace that it has had."""
        counts = self.counts
        return counts["seconds"] * (self._total / counts["ended"] - 1.0) if counts["ended"] else math.inf

    def end(self) -> None:
        """Wait for its end."""
        assert self._popen.wait() == 0


@contextmanager
def flooded(
    kind: str, total: int, at_once: int, targets: list[Target], folder: Path, tls: Path | None = None, name: str = ""
) -> Iterator[FloodProcess]:
    """Flood servers during the block; streams show the certificate of that name."""
    secured = ["--tls", str(tls), "--name", name] if tls else []
    command = [sys.executable, "-m", "tests.support.flood", kind, str(total), str(at_once), *map(str, targets)]
    log = folder / f"{kind}.log"
    with log.open("wb") as file:
        popen = subprocess.Popen(
            [*command, *secured],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "GRPC_VERBOSITY": "NONE"},
            stdout=file,
        )
        try:
            yield FloodProcess(popen, log, total, at_once)
        finally:
            popen.kill()
            popen.wait()


# In the process that floods


class Flood:
    """Opens connections or streams, keeps each until the server ends it, and opens another then."""

    def __init__(self, targets: list[Target], at_once: int, tls: Path | None, name: str) -> None:
        self._at_once = at_once
        self._began = time.monotonic()
        self._open = 0
        self._counts = Counter({"ended": 0, "most_at_once": 0})
        self._stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it has no certificate
        self._stranger.check_hostname, self._stranger.verify_mode = False, ssl.CERT_NONE
        self._stranger.set_alpn_protocols(["h2"])
        self._channels: dict[Target, Iterator[grpc.aio.Channel]] = {}
        for target in targets:
            options = [
                ("grpc.use_local_subchannel_pool", 1),  # a connection for each channel
                ("grpc.ssl_target_name_override", identity_of(target.name)),
            ]
            self._channels[target] = cycle(
                [
                    grpc.aio.secure_channel(target.address, read(tls, name).channel(), options=options)
                    if tls
                    else grpc.aio.insecure_channel(target.address, options=options[:1])
                    for _ in range(_CHANNELS)
                ]
            )

    async def run(self, total: int, visit: Callable[[int, Target], Awaitable[None]]) -> None:
        """Make so many visits in all."""
        numbers, targets = iter(range(total)), cycle(self._channels)

        async def one_after_the_other() -> None:
            for number in numbers:
                await visit(number, next(targets))
                self._counts["ended"] += 1
                if self._counts["ended"] % (total // 20) == 0:
                    self._say()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._at_once):
                tasks.create_task(one_after_the_other())
        self._say()

    def _say(self) -> None:
        self._counts["seconds"] = round(time.monotonic() - self._began)
        print(json.dumps(self._counts), flush=True)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        self._open += 1
        if self._open > self._counts["most_at_once"]:
            self._counts["most_at_once"] = self._open
            if self._open == self._at_once:
                self._say()
        yield
        self._open -= 1

    async def connect(self, number: int, target: Target) -> None:
        """Open a connection; one in 16 speaks HTTP/2, one shakes hands without a certificate, all others are silent."""
        host, _, port = target.address.rpartition(":")
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
        except OSError as error:
            self._counts[f"refused_by_{type(error).__name__}"] += 1
            return
        with self._opened(), suppress(OSError, ssl.SSLError):
            if number % 16 == 1:
                await writer.start_tls(self._stranger)
            if number % 16 == 2:
                writer.write(PREFACE)
            while await reader.read(4096):
                pass
        writer.close()

    async def open_stream(self, number: int, target: Target) -> None:
        """Open a stream; one in four sends something, all others are silent."""
        stream: grpc.aio.StreamStreamCall[bytes, bytes] = next(self._channels[target]).stream_stream(target.method)()
        with self._opened():
            if number % 4 == 1:
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await stream.write(bytes(8))
            self._counts[(await stream.code()).name] += 1


async def main() -> None:
    """Flood as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.flood", description=__doc__)
    parser.add_argument("kind", choices=["connections", "streams"])
    parser.add_argument("total", type=int)
    parser.add_argument("at_once", type=int)
    parser.add_argument("targets", nargs="+", type=Target.parse)
    parser.add_argument("--tls", type=Path)
    parser.add_argument("--name", default="")
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = Flood(asked.targets, asked.at_once, asked.tls, asked.name)
    async with asyncio.timeout(_LATE):
        await flood.run(asked.total, flood.connect if asked.kind == "connections" else flood.open_stream)


if __name__ == "__main__":
    asyncio.run(main())
