"""How a run's processes are started and restarted: written into the run folder before the first of them starts."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, TypeAdapter

from slaternet.limits import LIMITS
from slaternet.model import COORDINATOR, Role
from slaternet.spec import Spec
from slaternet.storage.disk import DISK, replace_file
from slaternet.storage.files import read_json
from slaternet.storage.journal import Durability
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.shell.register_db import REGISTER

ADVERSARY = "adversary"
"""The name of the adversary's process."""

_FILE = "run.json"


def states_of(folder: Path) -> Path:
    """Return where the processes of a run store their states, each in a folder of its name."""
    return folder / "state"


def spec_of(folder: Path) -> Path:
    """Return the path of the spec that the coordinator of a run is started with."""
    return states_of(folder) / COORDINATOR / "spec.toml"


def register_of(folder: Path) -> Path:
    """Return the path of the coordinator's register of a run."""
    return states_of(folder) / COORDINATOR / REGISTER


class Manifest(BaseModel):
    """What is needed to restart the processes of a run, besides its spec."""

    model_config = ConfigDict(frozen=True)

    hosts: Annotated[StrictInt, Field(ge=1, le=LIMITS.hosts)]
    durability: Durability
    rounds: Annotated[StrictInt, Field(ge=1, lt=1 << 63)] | None
    """The last round, which the spec adopts where it has another; None: there is none."""
    policy: Policy
    lost_after: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    journal_keep: Annotated[StrictInt, Field(ge=1, lt=1 << 63)] | None
    """How many rounds the adversary's journal keeps at least; None: all."""

    @property
    def roles(self) -> dict[str, str]:
        """The role of each process, by name."""
        return {COORDINATOR: COORDINATOR, ADVERSARY: Role.ADVERSARY, **dict.fromkeys(self.agents, Role.HOST)}

    @property
    def agents(self) -> list[str]:
        """The names of the agent hosts."""
        return [f"agent-{number}" for number in range(1, self.hosts + 1)]

    def write(self, folder: Path) -> None:
        """Write it into a run folder; when this returns, it survives a loss of power."""
        _write(states_of(folder) / _FILE, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the manifest of a run folder; None where there is none, BadSpec where it is damaged."""
        path = states_of(folder) / _FILE
        if not path.exists():
            return None
        damaged = "is damaged; put back what `slaternet run` wrote there, or play the spec anew"
        return read_json(path, TypeAdapter(cls), damaged)


def write_spec(folder: Path, spec: Spec) -> None:
    """Write the spec that the coordinator is started with; when this returns, it survives a loss of power."""
    _write(spec_of(folder), spec.to_toml())


def _write(path: Path, text: str) -> None:
    DISK.make_folder(path.parent)
    replace_file(path, text.encode())
