"""The services of one game on this machine alone, as anyone may start them: without wires, and without root."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.cluster.machines import Machine, Network, shown
from tests.cluster.services import ADVERSARY, COORDINATOR, PAPER, Services, Wire, hand_out, hosts

STATE = ("--state", "state")
"""What makes a service one that may be killed and started again by the same command."""

_games = count(1)


class Corner(Machine):
    """A folder of its own, and the loopback address that all corners of a game share."""

    @property
    def entrance(self) -> tuple[str, ...]:
        """What stands before a command that shall run here: nothing."""
        return ()


def address() -> str:
    """Return a loopback address that no other game has, so that every coordinator may have its usual port."""
    pid = os.getpid()
    return f"127.{1 + pid // 65536 % 60 + 60 * (next(_games) % 4)}.{pid // 256 % 256}.{pid % 256}"


@contextmanager
def on_loopback(
    folder: Path,
    number: int,
    rounds: int | None,
    *,
    spec: Sequence[str] = PAPER,
    options: Sequence[str] = STATE,
    wire: Wire = Wire.PLAIN,
) -> Iterator[Services]:
    """Make a corner for a coordinator, an adversary and that many agent hosts; nothing is started yet."""
    here = address()
    corners = [Corner(name, "", here, folder / name) for name in (COORDINATOR, ADVERSARY, *hosts(number))]
    for corner in corners:
        corner.folder.mkdir(parents=True)
    network = Network(corners)
    if wire is Wire.TLS:
        hand_out(folder / "certs", number, network)
    try:
        with shown(corners):
            yield Services(network, number, rounds, wire, spec, options)
    finally:
        for corner in corners:
            corner.end()
