"""Giving a game another last round: a finished one is played on, and one that was cut short ends elsewhere.

The rounds that were played stay as they are: the journal is complete, and hosts go on from the low-water mark M as
after a crash. What changes is the spec, and with it the name by which every process knows its game.

`Manifest.write` decides: until it returns the old game stands, and from then on the longer one. All that follows can be
done again, and is done by the next `resume` if it was not finished; the coordinator's spec, which comes last, says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.model import COORDINATOR, StopAt
from slaternet.spec import Spec
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.state_dir import StateDir
from slaternet_adversary.journal.journal import AdversaryJournal, begun
from slaternet_adversary.shell.run_folder import retract
from slaternet_coordinator.shell.register_db import RegisterDb
from slaternet_lab.games.manifest import Manifest, register_of, spec_of, write_spec
from slaternet_lab.specs.resolve import resolve


def check(folder: Path, spec: Spec, rounds: int) -> None:
    """Refuse another last round to a game that depends on it, or that could not be played so far."""
    if spec.algorithm.horizon is not None:
        raise BadSpec(
            f"{folder} cannot be given another last round: {spec.algorithm.name} with schedule "
            f"{spec.algorithm.schedule} depends on it; play `slaternet run {folder} --set run.rounds={rounds}`"
        )
    longer = spec.replace(**{"run.rounds": rounds})
    if resolve(longer, folder) != longer:
        raise BadSpec(
            f"{folder} cannot be given another last round: the code that {spec_of(folder)} names is not the one it was "
            "played with; put that back"
        )


@dataclass(frozen=True)
class Extension:
    """A game whose processes are all at rest, and whose states are held here."""

    folder: Path
    manifest: Manifest
    states: Mapping[str, StateDir]
    run: str
    """The id of the game; empty where it was never begun."""

    def decide(self, rounds: int) -> "Extension":
        """Give the game another last round: nothing has changed yet, and nothing will be as it was."""
        manifest = self.manifest.model_copy(update={"rounds": rounds})
        self._check_checkpoints()
        manifest.write(self.folder)
        return replace(self, manifest=manifest)

    def complete(self, spec: Spec) -> Spec:
        """Bring everything to what was decided, from wherever an earlier attempt has left it; return the new spec."""
        longer = spec.replace(**{"run.rounds": self.manifest.rounds})
        if longer == spec:
            return spec
        retract(self.folder)
        if self.run:
            self._journal(StopAt(longer.run.rounds or 0))
            mark, hosts = self._coming_back()
            for name in hosts:
                self._rename_checkpoint(self.states[name], mark, longer.digest())
        for name, state in self.states.items():
            if name != COORDINATOR:
                state.play_on(longer.digest())
        if self.run:
            with RegisterDb.reopen(register_of(self.folder)) as archive:
                archive.play_on(longer.digest())
        self.states[COORDINATOR].play_on(longer.digest())
        write_spec(self.folder, longer)
        return longer

    def _coming_back(self) -> tuple[int, list[str]]:
        """Return M, and the hosts that go on from it: not those that were given up, or whose agents have all left."""
        with RegisterDb.reopen(register_of(self.folder)) as archive:
            memory = archive.recall()
        mark = memory.low_water
        attendance = Attendance(sum(entry.seats.size for entry in memory.members), memory.departures)
        playing = (each for each in memory.members if not each.lost and attendance.of(each.seats, mark + 1).size)
        return mark, [entry.name for entry in playing] if mark else []

    def _journal(self, end: StopAt) -> None:
        """Write down the last round; written twice, it says the same."""
        if not begun(self.folder):
            return
        chronicle = AdversaryJournal.resume(self.folder, self.run, durability=self.manifest.durability)
        try:
            for _ in chronicle.replay():
                pass
            chronicle.append(end)
        finally:
            chronicle.close()

    def _check_checkpoints(self) -> None:
        """Refuse while that is possible what could not be gone on from."""
        if not self.run:
            return
        mark, hosts = self._coming_back()
        for name in hosts:
            state = self.states[name]
            if state.checkpoints is not None:
                Checkpoints(state.checkpoints, name, self.run, state.past_spec).read(mark)

    def _rename_checkpoint(self, state: StateDir, mark: int, spec: str) -> None:
        """Write the checkpoint at M, from which a host goes on, as one of the new spec."""
        if state.checkpoints is None or state.past_spec == spec:
            return
        before, after = (Checkpoints(state.checkpoints, state.name, self.run, each) for each in (state.past_spec, spec))
        try:
            after.read(mark)
        except BadSpec:  # it is still the old one
            after.write(mark, before.read(mark))
