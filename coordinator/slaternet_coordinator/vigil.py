"""Who of the hosts has been away for too long."""

from collections.abc import Callable

from slaternet_coordinator.register import Register


class Vigil:
    """Looks for hosts that were not heard for so many seconds, of those in which the coordinator was awake.

    What it slept through is nobody's fault. Whoever keeps the vigil looks every `step` seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        longest: float,
        register: Register,
        *,
        give_up: Callable[[str], None],
        miss: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._longest = longest
        self._register = register
        self._give_up = give_up
        self._miss = miss
        self._looked = clock()
        self._awake = 0.0  # seconds
        self._heard: dict[str, float] = {}
        self._missed: set[str] = set()
        self.step = min(1.0, longest / 8)

    def hear(self, name: str) -> None:
        """Take down that a process was heard."""
        self._heard[name] = self._awake
        self._missed.discard(name)

    def expect(self, name: str, within: float) -> None:
        """Give a process that was there before this coordinator so many seconds to come back, at least."""
        self._heard[name] = self._awake + max(0.0, within - self._longest)

    def look(self) -> None:
        """Give up who has been away for too long; say once of each that is waited for all the same."""
        now = self._clock()
        self._awake += min(now - self._looked, 2 * self.step)
        self._looked = now
        for host in self._register.players:
            away = self._awake - self._heard.setdefault(host.name, self._awake)
            if host.connected or host.lost or away < self._longest:
                continue
            self._give_up(host.name)
            if not host.lost and host.name not in self._missed:
                self._missed.add(host.name)
                self._miss(f"{host.name} has been away for {self._longest:g} s; the game waits for it")
