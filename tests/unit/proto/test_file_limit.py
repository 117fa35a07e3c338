"""Connections are open files: a server accepts many, and never so many that its process cannot open its own files."""

import subprocess
import sys

import pytest

from slaternet.limits import LIMITS

HOSTS = 3
KNOWN = 4 * HOSTS + 16


def measured(soft: int, hard: int, *, raised: bool) -> tuple[int, int]:
    """Return the soft limit and the connections of a server in a process that starts with these limits."""
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from slaternet.limits import LIMITS
from slaternet.network.file_limit import connections_at_once, raise_file_limit
if {raised}:
    raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], connections_at_once({HOSTS}, LIMITS))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    limit, connections = map(int, done.stdout.split())
    return limit, connections


@pytest.mark.parametrize("files", [64, 600, 1024, 4096])
def test_connections_leave_files_for_everything_else(files: int) -> None:
    limit, connections = measured(files, files, raised=True)

    assert limit == files
    assert connections == max(KNOWN, files - LIMITS.files)


def test_a_service_opens_as_many_files_as_the_system_lets_it() -> None:
    assert measured(1024, 4096, raised=False) == (1024, 1024 - LIMITS.files)
    assert measured(1024, 4096, raised=True) == (4096, 4096 - LIMITS.files)
