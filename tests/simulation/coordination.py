"""Who watches the coordinator: what it keeps is never taken back, and kept before it is told.

M, what is published, the last round, incarnations, who is lost, seatings and departures. Nobody is given up who was
heard lately, nor the last host that could play on.
"""

from typing import TYPE_CHECKING, Any

from tests.simulation.games import LIMITS, listed
from tests.simulation.loop import current

from slaternet.attendance import FOREVER, Attendance
from slaternet.model import COORDINATOR, GameOver, LowWater, Role, Seating, StopAt, Topology
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.engine.saved import SavedMember as Place
from slaternet_coordinator.shell.control import Control
from slaternet_coordinator.shell.register_db import RegisterDb

if TYPE_CHECKING:
    from tests.simulation.world import World

_ORDER = ("gathering", "playing", "stopping", "over", "failed")


class Coordination:
    """What the coordinator has kept, as seen from outside."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.kept = SavedGame()
        self.lost: set[str] = set()
        self.adopter = ""
        """The host that has taken seats over last."""
        self._places: dict[str, Place] = {}
        self._heard: dict[str, float] = {}
        self._control: Any = None

    @property
    def watched(self) -> list[tuple[type, str, Any, Any]]:
        """What is seen, before and after."""
        return [
            (RegisterDb, "save", self._before_keeping, self._after_keeping),
            (Control, "tell", self._before_telling, None),
            (Control, "_note_contact", None, self._after_hearing),
        ]

    @property
    def begun(self) -> bool:
        """Whether the seats are shared out."""
        return self.kept.epoch > 0

    @property
    def stopping(self) -> bool:
        """Whether an operator was heard who ends the game."""
        return _ORDER.index(self.kept.phase) > _ORDER.index("playing")

    @property
    def seated(self) -> set[str]:
        """The hosts that have seats."""
        return {name for name, place in self._places.items() if place.seats.size}

    @property
    def orphaned(self) -> set[str]:
        """The hosts that are lost while nobody else has their seats."""
        return self.lost & self.seated

    def needs(self, name: str) -> bool:
        """Whether the game cannot end without a process."""
        if name in self.lost:
            return False
        return name not in self._world.hosts or not self.begun or name in self.seated

    def attendance(self) -> Attendance:
        """Return who plays when."""
        return Attendance(self._world.game.spec.run.agents, self.kept.departures)

    def _require(self, truth: object, what: str) -> None:
        if not truth:
            self._world.accuse(what)

    def _before_keeping(self, archive: RegisterDb, memory: SavedGame) -> None:
        kept, places = self.kept, memory.members
        self._require(memory.low_water >= kept.low_water, f"M falls from {kept.low_water} to {memory.low_water}")
        self._require(memory.published >= kept.published, f"{memory.published} is published after {kept.published}")
        self._require(kept.settled in (None, memory.settled), f"S was {kept.settled}, and is {memory.settled}")
        self._require(
            _ORDER.index(memory.phase) >= _ORDER.index(kept.phase), f"{memory.phase} comes after {kept.phase}"
        )
        bound = memory.low_water + 2 * LIMITS.checkpoint_every + LIMITS.window
        self._require(memory.published <= bound, f"{memory.published} is published with M = {memory.low_water}")
        self._check_epoch(memory)
        for place in places:
            self._check_place(place)
        gone = self._places.keys() - {place.name for place in places}
        self._require(not gone, f"{gone} are not kept any more")
        self._check_mark(memory)

    def _check_epoch(self, memory: SavedGame) -> None:
        epoch, before = self.kept.epoch, self.attendance()
        self._require(memory.epoch >= epoch, f"epoch {memory.epoch} comes after {epoch}")
        after = Attendance(self._world.game.spec.run.agents, memory.departures)
        grown = (after.ends != before.ends) & (before.ends < FOREVER)
        self._require(not grown.any(), f"{memory.departures} takes back {self.kept.departures}")
        same = (after.ends == before.ends).all()
        self._require(same or memory.epoch > epoch, f"agents depart within epoch {epoch}")

    def _check_place(self, place: Place) -> None:
        name, known = place.name, self._places.get(place.name)
        if known is not None:
            before = known.incarnation
            self._require(place.incarnation >= before, f"{name} was incarnation {before}, is {place.incarnation}")
        self._require(place.lost or name not in self.lost, f"{name} was lost, and is let in again")
        if place.lost and name not in self.lost:
            self._check_loss(name)

    def _check_loss(self, name: str) -> None:
        """Nobody is given up who was heard lately, and not the last host that could play on."""
        world, after = self._world, self._world.losses.lost_after
        since = max(self._heard.get(name, 0.0), world.lives[COORDINATOR].born)
        step = min(1.0, after / 8)
        self._require(world.loop.time() - since >= after - 2 * step, f"{name} is given up, and was heard at {since}")
        links = self._control.streams
        self._require(name not in links, f"{name} is given up, and connected")
        others = [each for each in links if each in world.hosts and each not in self.lost]
        self._require(others, f"{name} is given up, and there is no other host")

    def _check_mark(self, memory: SavedGame) -> None:
        """Who has seats and plays on has a checkpoint of M; who takes seats over rebuilds what it lacks."""
        mark, attendance = memory.low_water, Attendance(self._world.game.spec.run.agents, memory.departures)
        if not mark or (mark == self.kept.low_water and memory.epoch > 1):
            return
        for place in memory.members:
            name = place.name
            if place.role is not Role.HOST or place.lost or not attendance.of(place.seats, mark).size:
                continue
            self._require(self.is_safe(name, mark), f"{name} has no checkpoint of M = {mark}")

    def is_safe(self, host: str, round: int) -> bool:
        """Whether a checkpoint survives whatever happens now."""
        machine = self._world.machines[host]
        return machine.disk.is_safe(machine.folder / "state" / host / "checkpoints" / f"{round:06d}")

    def _after_keeping(self, _: None, archive: RegisterDb, memory: SavedGame) -> None:
        places = memory.members
        if memory.epoch > max(self.kept.epoch, 1):
            grown = [each.name for each in places if each.seats.size > self._places[each.name].seats.size]
            self.adopter = grown[0] if grown else ""
            self._require(len(grown) == 1, f"{grown} take seats over")
            departed = listed(memory.departures) != listed(self.kept.departures)
            self._world.weather.counts["departures" if departed else "replacements"] += 1
        self.kept = memory
        self._places.update((place.name, place) for place in places)
        lost = {place.name for place in places if place.lost} - self.lost
        self._world.weather.counts["lost hosts"] += len(lost)
        self.lost |= lost
        self._world.reaper.look()

    def _before_telling(self, control: Control, name: str, body: object) -> None:
        kept = self.kept
        match body:
            case Topology(round, rounds, low_water=mark):
                self._require(round + rounds - 1 <= kept.published, f"{round + rounds - 1} is told before it is kept")
                self._require(mark <= kept.low_water, f"M = {mark} is told before it is kept")
            case LowWater(mark):
                self._require(mark <= kept.low_water, f"M = {mark} is told before it is kept")
            case StopAt(last):
                self._require(last == kept.settled, f"S = {last} is told before it is kept")
            case GameOver():
                self._require(kept.phase in ("over", "failed"), "the end is told before it is kept")
            case Seating():
                self._seats(control, body)

    def _seats(self, control: Control, seating: Seating) -> None:
        epoch = control._engine.view.epoch
        self._require(epoch == self.kept.epoch, f"epoch {epoch} is told before it is kept")
        departures = listed(seating.departures)
        self._require(departures == listed(self.kept.departures), f"{departures} are told before they are kept")
        for peer in seating.peers:
            place = self._places.get(peer.name)
            known = place is not None and peer.incarnation <= place.incarnation
            self._require(known, f"{peer.name} is told before it is kept")

    def _after_hearing(self, _: None, control: Control, name: str) -> None:
        life = current()
        assert life is not None
        self._control = control
        self._heard[name] = self._world.loop.time()
