"""How a run's processes are started, and started again: written into the run folder before the first of them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from slaternet.disk import DISK, replace_file
from slaternet.errors import BadSpec
from slaternet.journal import Durability
from slaternet.model import COORDINATOR, Role
from slaternet.spec import Spec
from slaternet_coordinator.archive import REGISTER
from slaternet_coordinator.rules import LOST_AFTER, Policy

ADVERSARY = "adversary"
"""The name of the one that there is."""

_FILE = "run.json"


def states_of(folder: Path) -> Path:
    """Return where the processes of a run keep their states, each in a folder of its name."""
    return folder / "state"


def spec_of(folder: Path) -> Path:
    """Return where the spec stands that the coordinator of a run is started with."""
    return states_of(folder) / COORDINATOR / "spec.toml"


def register_of(folder: Path) -> Path:
    """Return where the coordinator of a run keeps how the game stands."""
    return states_of(folder) / COORDINATOR / REGISTER


@dataclass(frozen=True, slots=True)
class Launch:
    """What must be known to start the processes of a run again, besides its spec."""

    hosts: int
    durability: Durability = Durability.KILL
    rounds: int | None = None
    """The last round, to which the spec is brought where it has another; None: there is none."""
    policy: Policy = Policy.WAIT
    lost_after: float = LOST_AFTER
    journal_keep: int | None = None
    """How many rounds the adversary's journal keeps at least; None: all."""

    @property
    def roles(self) -> dict[str, str]:
        """The processes by name, and what each of them does."""
        return {COORDINATOR: COORDINATOR, ADVERSARY: Role.ADVERSARY, **dict.fromkeys(self.agents, Role.HOST)}

    @property
    def agents(self) -> list[str]:
        """The names of the agent hosts."""
        return [f"agent-{number}" for number in range(1, self.hosts + 1)]

    def write(self, folder: Path) -> None:
        """Write it into a run folder; when this returns, it outlives a loss of power."""
        _keep(states_of(folder) / _FILE, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return how the run in a folder was started; None where it does not say, BadSpec where it is damaged."""
        path = states_of(folder) / _FILE
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            hosts, durability, rounds = held["hosts"], Durability(held["durability"]), held["rounds"]
            policy, lost_after = Policy(held["policy"]), float(held["lost_after"])
            journal_keep = held["journal_keep"]
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            raise _damaged(path) from None
        if type(hosts) is not int or not all(type(each) in (int, type(None)) for each in (rounds, journal_keep)):
            raise _damaged(path)
        return cls(hosts, durability, rounds, policy, lost_after, journal_keep)


def write_spec(folder: Path, spec: Spec) -> None:
    """Write the spec that the coordinator is started with; when this returns, it outlives a loss of power."""
    _keep(spec_of(folder), spec.to_toml())


def _keep(path: Path, text: str) -> None:
    DISK.make_folder(path.parent)
    replace_file(path, text.encode())


def _damaged(path: Path) -> BadSpec:
    return BadSpec(f"{path} is damaged; put back what `slaternet run` wrote there, or play the spec anew")
