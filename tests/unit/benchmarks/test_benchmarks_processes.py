"""What `make bench` reads of processes (benchmarks/processes.py), and how it judges."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks import claims, long_run, race
from benchmarks.processes import Turn, cpu_seconds, members, memory

NAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())  # PR_SET_NAME
print(flush=True)
sys.stdin.read()
"""
PARENT = """
import subprocess, sys
programs = [[sys.executable, *words.split("|")] for words in sys.argv[1:]]
children = [subprocess.Popen(program, stdin=0, stdout=subprocess.PIPE) for program in programs]
for child in children:
    child.stdout.readline()
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
"""


@contextmanager
def family(*children: str) -> Iterator[tuple[int, list[int]]]:
    """Start a process with children; yield its number and theirs."""
    command = [sys.executable, "-c", PARENT, *children]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        yield parent.pid, [int(word) for word in parent.stdout.readline().split()]


def test_processes_are_known_by_the_name_that_they_have_given_themselves_or_by_their_command_line() -> None:
    program = f"-c|{NAMED}"
    with family(f"{program}|adversary", f"{program}|agent-12", f"{program}|-m|slaternet_agent|--name|agent-3") as (
        pid,
        own,
    ):
        found = members(pid)

    assert found == {"command": pid, **dict(zip(("adversary", "agent-12", "agent-3"), own, strict=True))}


def test_cpu_time_of_another_process_is_that_of_its_own_clock() -> None:
    before = time.process_time()
    measured = cpu_seconds(os.getpid())

    assert before <= measured <= time.process_time()


def test_memory_of_a_process_that_has_ended_is_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()

    own = memory(os.getpid())
    assert own is not None
    assert 0 < own.now <= own.peak
    assert memory(ended.pid) is None


def test_the_share_of_another_contestant_is_the_median_of_the_ratios_of_all_turns() -> None:
    ms = {"run 2": [2.0, 20.0, 3.0], "bare 2": [1.0, 8.0, 2.0]}  # the machine was slow in the second turn

    assert claims.at_least(ms, "run 2", "bare 2", 0.5) == ("run 2 at 0.50 of bare 2 (at least 0.5)", True)
    assert not claims.at_least(ms, "run 2", "bare 2", 0.51).holds


def test_one_claim_that_does_not_hold_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = claims.at_most("good", 1.0, 1.0), claims.at_most("bad", 1.1, 1.0, " s")

    assert claims.judge([good, good])
    assert not claims.judge([good, bad, good])
    assert capsys.readouterr().out.count("bad: 1.1 s (at most 1 s): DOES NOT HOLD") == 1


def test_the_cost_of_hosts_is_their_average_in_each_turn() -> None:
    cpu = {"coordinator": 0.1, "adversary": 5.0, "agent-1": 1.0, "agent-2": 3.0, "command": 9.0}

    assert race.roles([Turn(1.0, cpu)]) == {"coordinator": [0.1], "adversary": [5.0], "host": [2.0]}


def test_the_growth_of_memory_counts_after_the_warm_up() -> None:
    warming = [(round, 50.0 + round / 100) for round in range(0, long_run.WARM_UP, 1000)]
    flat = [(round, 300.0 + 0.5 * round / 10_000) for round in range(long_run.WARM_UP, long_run.ROUNDS, 1000)]

    assert long_run.slope(warming + flat) == pytest.approx(0.5)
