import os
import signal
import subprocess
import sys

import pytest

from slaternet.errors import BadSpec
from slaternet.storage.failpoints import NAMES, Failpoint, arm, check, failpoint, parse

REACHES = """
from slaternet.storage.failpoints import check, failpoint
check()
for place in ("agent_before_query", "agent_after_reply", "agent_before_query"):
    print(place, flush=True)
    failpoint(place)
print("alive")
"""


def reached(failpoint: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SLATERNET_FAILPOINT": failpoint}
    return subprocess.run([sys.executable, "-c", REACHES], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("failpoint", "places"), [("agent_after_reply:kill", 2), ("agent_before_query:kill@2", 3)])
def test_a_process_is_killed_where_and_when_it_is_said(failpoint: str, places: int) -> None:
    ended = reached(failpoint)

    assert ended.returncode == -signal.SIGKILL
    assert len(ended.stdout.splitlines()) == places
    assert ended.stderr == f"failpoint {failpoint.partition(':')[0]}: killed\n"


def test_a_process_lives_that_does_not_reach_the_place_as_often() -> None:
    ended = reached("agent_before_query:kill@3")

    assert (ended.returncode, ended.stdout.splitlines()[-1], ended.stderr) == (0, "alive", "")


def test_a_name_that_is_not_known_is_refused_at_the_start() -> None:
    ended = reached("agent_before_qwery:kill")

    assert ended.returncode == 1
    assert "BadSpec: SLATERNET_FAILPOINT names agent_before_qwery, which is no failpoint; did you mean" in ended.stderr
    assert not ended.stdout


@pytest.mark.parametrize("action", ["", ":", ":raise", ":kill@", ":kill@0", ":kill@-1", ":kill@x", ":kill@²"])
def test_what_is_not_understood_is_refused_with_an_example(action: str) -> None:
    with pytest.raises(BadSpec, match="write agent_after_reply:kill, or agent_after_reply:kill@3 for the third time"):
        parse(f"agent_after_reply{action}")


def test_every_name_is_understood() -> None:
    assert [parse(f"{name}:kill@7") for name in NAMES] == [Failpoint(name, 7) for name in NAMES]
    assert len(set(NAMES)) == 15


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLATERNET_FAILPOINT", raising=False)

    check()
    for name in NAMES:
        failpoint(name)


def test_a_test_may_say_what_happens_where_a_place_is_reached() -> None:
    places: list[str] = []
    arm(places.append)
    try:
        failpoint("agent_before_query")
    finally:
        arm(None)
    failpoint("agent_after_reply")

    assert places == ["agent_before_query"]
