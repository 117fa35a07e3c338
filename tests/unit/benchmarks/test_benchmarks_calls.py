"""The counter of calls (benchmarks/counted), on a toy whose calls are known."""

import json
import os
import subprocess
import sys
from pathlib import Path

COUNTED = Path(__file__).parents[3] / "benchmarks" / "counted"

SERVICE = """
import asyncio
import json
import threading

from slaternet.shared import Box, inner, walk
from slaternet.v1.generated import parse


def work():
    assert [inner(number) for number in range(3)] == list(inner(number) for number in range(3))
    assert list(walk(5)) == [0, 1, 2, 3, 4]
    Box().open()
    parse()
    json.dumps({})


async def wait(times):
    for _ in range(times):
        await asyncio.sleep(0)


async def main():
    await wait(10)
    await wait(10)


for _ in range(2):
    work()
asyncio.run(main())
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
SHARED = """
def inner(number):
    return number


def walk(end):
    for number in range(end):
        yield number


class Box:
    def open(self):
        return (lambda: inner(0))()
"""


def counted(folder: Path, *command: str) -> list[dict[str, object]]:
    """Run a module of the toy with the counter; return what its processes have written."""
    for path, text in {
        "slaternet/__init__.py": "",
        "slaternet/shared.py": SHARED,
        "slaternet/v1/__init__.py": "",
        "slaternet/v1/generated.py": "def parse(): pass",
        "slaternet_agent/__init__.py": "",
        "slaternet_agent/__main__.py": SERVICE,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "calls").mkdir()
    path = os.pathsep.join(map(str, (COUNTED, folder)))
    environment = {**os.environ, "PYTHONPATH": path, "SLATERNET_CALLS": str(folder / "calls")}
    subprocess.run([sys.executable, *command], env=environment, check=True, timeout=60)
    return [json.loads(path.read_text()) for path in (folder / "calls").iterdir()]


def test_every_call_of_our_own_functions_counts_once_in_every_thread(tmp_path: Path) -> None:
    (document,) = counted(tmp_path, "-P", "-m", "slaternet_agent", "--name", "agent-7")

    assert document["name"] == "agent-7"
    calls = document["calls"]
    assert isinstance(calls, dict)
    assert {name: number for name, number in calls.items() if "<module>" not in name} == {
        "slaternet_agent/__main__.py:work": 3,
        "slaternet_agent/__main__.py:main": 1,
        "slaternet_agent/__main__.py:wait": 2,
        "slaternet/shared.py:inner": 21,
        "slaternet/shared.py:walk": 3,
        "slaternet/shared.py:Box": 1,
        "slaternet/shared.py:Box.open": 3,
        "slaternet/shared.py:Box.open.<locals>.<lambda>": 3,
    }


def test_a_process_that_is_no_service_of_a_game_is_not_counted(tmp_path: Path) -> None:
    assert counted(tmp_path, "-c", "import slaternet.shared") == []
