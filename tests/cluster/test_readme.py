"""What README and guide say about several machines works as it stands, with nothing changed but the address."""

import os
import re
from pathlib import Path

import pytest
from tests.cluster.machines import SLATERNET, Machine, Process, network
from tests.cluster.services import digest, simulated

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
ADDRESS = "192.0.2.1"
PAPER_ROUNDS = 1000
# There is no ssh between the machines of a test: what is copied from A is taken from A's folder, its home.
SCP = """#!/bin/sh
set -e
test "$1" = -r && shift
while test $# -gt 1; do from="$from {home}/${{1#{address}:}}"; shift; done
cp -r $from "$1"
"""


def commands(page: str, title: str) -> list[list[str]]:
    """Return the commands that a page gives for each machine."""
    section = (ROOT / page).read_text().partition(f"## {title}\n")[2].partition("\n#")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in blocks]


def typed(machine: Machine, line: str, address: str, tools: Path) -> Process:
    """Start a line as a user of that machine would."""
    path = f"{tools}:{Path(SLATERNET).parent}:{os.environ['PATH']}"
    name = re.sub(r"\W+", "-", line)[:40]
    return machine.start(name, "sh", "-c", line.replace(ADDRESS, address), variables={"PATH": path})


@pytest.mark.parametrize(
    ("page", "title", "hosts"), [("README.md", "On several machines", 1), ("docs/operate.md", "Several machines", 2)]
)
def test_the_commands_for_two_machines_play_the_example(tmp_path: Path, page: str, title: str, hosts: int) -> None:
    first, second = commands(page, title)
    assert (len(first), len(second)) == (3, 1 + hosts)
    with network(tmp_path, "a", "b") as both:
        a, b = both["a"], both["b"]
        scp = tmp_path / "tools" / "scp"
        scp.parent.mkdir()
        scp.write_text(SCP.format(home=a.folder, address=a.address))
        scp.chmod(0o755)

        assert typed(a, first[0], a.address, scp.parent).ends() == 0
        assert typed(b, second[0], a.address, scp.parent).ends() == 0
        services = [typed(a, line, a.address, scp.parent) for line in first[1:]]
        services += [typed(b, line, a.address, scp.parent) for line in second[1:]]

        assert [service.ends() for service in services] == [0] * (2 + hosts)
        assert digest(a.folder / "runs" / "several") == simulated(PAPER_ROUNDS)
        assert both.wires.total().packets > PAPER_ROUNDS
