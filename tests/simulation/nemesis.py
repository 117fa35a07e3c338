"""Lets things go wrong by the clock: links clogged or cut one way, processes paused or killed, one or all of them."""

from typing import TYPE_CHECKING

from tests.simulation.loop import Life

if TYPE_CHECKING:
    from tests.simulation.world import World

_GAP = 0.05
"""Seconds between two looks."""


class Nemesis:
    """Troubles one world, at the rates of its faults."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def begin(self) -> None:
        """Begin to look around."""
        self._world.loop.outside(_GAP, self._look)

    def _look(self) -> None:
        world = self._world
        faults, random, weather = world.faults, world.random, world.weather
        if weather.happens(faults.clogs * _GAP, "clogs"):
            self._hold(random.uniform(0.0, 5.0), "clogged")
        if weather.happens(faults.cuts * _GAP, "one-way cuts"):
            self._hold(random.uniform(1.0, 30.0), "cut")
        alive = [life for life in world.lives.values() if life.alive]
        if alive and weather.happens(faults.pauses * _GAP, "pauses"):
            self._pause(random.choice(alive))
        if alive and world.may_kill() and weather.happens(faults.kills * _GAP, "kills"):
            self._kill(alive)
        if not weather.healed:
            self.begin()

    def _hold(self, seconds: float, how: str) -> None:
        sender, receiver = self._world.random.sample(self._world.names, 2)
        self._world.say(f"{sender} to {receiver} is {how} for {seconds:.2f} s")
        self._world.weather.hold(sender, receiver, seconds)

    def _pause(self, life: Life) -> None:
        seconds = 10 ** self._world.random.uniform(-2.0, 1.4)
        self._world.say(f"{life.name} pauses for {seconds:.2f} s")
        life.paused_until = max(life.paused_until, self._world.loop.time() + seconds)

    def _kill(self, alive: list[Life]) -> None:
        random = self._world.random
        together = random.random() < 0.1  # now and then all of them at once
        for life in alive if together else [random.choice(alive)]:
            self._world.say(f"{life.name} is killed")
            self._world.kill(life)
