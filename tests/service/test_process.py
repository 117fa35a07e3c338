import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_PROGRAM = """
import asyncio, sys
import structlog
from slaternet.service import logs, main as process

async def wait(stopping):
    structlog.get_logger().info("ready", port=7)
    structlog.get_logger().debug("not worth a line")
    print(type(asyncio.get_running_loop()).__module__, flush=True)
    await stopping.wait()
    print("stopping", flush=True)
    if "linger" in sys.argv:
        await asyncio.Event().wait()
    return 5

if "plain" in sys.argv:
    sys.modules["uvloop"] = None
logs.configure_log()
raise SystemExit(process.run(wait))
"""


@contextmanager
def program(*arguments: str, tethered: str = "1") -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "SLATERNET_TETHERED": tethered, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("arguments", "loop"), [((), "uvloop"), (("plain",), "asyncio.unix_events")])
def test_a_process_runs_on_uvloop_where_there_is_one(arguments: tuple[str, ...], loop: str) -> None:
    with program(*arguments) as process:
        assert _line(process) == loop
        process.terminate()
        assert process.wait(10) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_the_process_to_stop(number: signal.Signals) -> None:
    with program() as process:
        _line(process)
        process.send_signal(number)
        assert _line(process) == "stopping"
        assert process.wait(10) == 5


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_ends_it_at_once(numbers: tuple[signal.Signals, ...]) -> None:
    with program("linger") as process:
        _line(process)
        process.send_signal(numbers[0])
        assert _line(process) == "stopping"
        process.send_signal(numbers[1])
        assert process.wait(10) == 130


def test_a_tethered_process_stops_with_its_parent_and_takes_one_signal_still() -> None:
    with program("linger") as process:
        _line(process)
        assert process.stdin is not None
        process.stdin.close()
        assert _line(process) == "stopping"
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.terminate()
        assert process.wait(10) == 130


def test_a_process_that_is_not_tethered_goes_on_without_input() -> None:
    with program(tethered="0") as process:
        _line(process)
        assert process.stdin is not None
        process.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.terminate()
        assert process.wait(10) == 5


def test_the_log_has_one_plain_line_an_event() -> None:
    with program() as process:
        _line(process)
        process.terminate()
        _, said = process.communicate(timeout=10)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[info +\] ready +port=7\n", said)
