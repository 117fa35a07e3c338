"""The settings with which an operator starts a process."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slaternet.environment import REAL, Environment
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.network import certificates as tls
from slaternet.network.addresses import check_address, is_loopback
from slaternet.network.certificates import Plain, Security
from slaternet.storage.journal import Durability

if TYPE_CHECKING:
    from slaternet.storage.state_dir import StateDir

_NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{LIMITS.name_bytes - 1}}}")


@dataclass(frozen=True, slots=True)
class ProcessConfig:
    """The settings of one process: name, addresses, certificates, state folder."""

    name: str
    coordinator: str = ""
    """HOST:PORT; empty: this is the coordinator."""
    listen: str = ""
    """HOST:PORT, port 0 for a free one; empty: a free port, on loopback if the coordinator is there."""
    advertise: str = ""
    """HOST:PORT where others reach it; empty: the address from which it reaches the coordinator."""
    state: Path | None = None
    """Folder of states, one per process name; None: nothing survives a restart."""
    fresh: bool = False
    """Start with an empty state."""
    tls: Path | None = None
    """Folder of certificates, one folder per process name; None: no TLS."""
    insecure: bool = False
    """Allow connections off this machine without TLS."""
    metrics: str = ""
    """HOST:PORT for Prometheus; empty: none."""
    durability: Durability = Durability.KILL
    """The failure that an acknowledged record of its journal survives."""
    environment: Environment = REAL
    """Its clock, random source, disk and limits."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadSpec(
                f"--name {self.name[:80]} cannot be a name; use a-z, 0-9 and -, at most {LIMITS.name_bytes} of them, "
                "and no - in front"
            )
        for what, address in (("--coordinator", self.coordinator), ("--advertise", self.advertise)):
            if address:
                check_address(address, what=what)
        if self.listen:
            check_address(self.listen, what="--listen", free=True)

    def claim(self, role: str) -> "StateDir":
        """Return the state of this process, locked until it is released."""
        from slaternet.storage.state_dir import StateDir  # for commands, which need no more than options

        return StateDir.claim(self.state, self.name, role=role, fresh=self.fresh, disk=self.environment.disk)

    @property
    def listening(self) -> str:
        """HOST:PORT where it listens."""
        if self.listen:
            return self.listen
        return "127.0.0.1:0" if is_loopback(self.coordinator) else "0.0.0.0:0"

    async def security(self) -> Security:
        """Return its credentials, or Plain without TLS; wait for certificates that are not there yet."""
        return Plain(anywhere=self.insecure) if self.tls is None else await tls.load(self.tls, self.name)
