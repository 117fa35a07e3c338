"""A runtime whose calls return what it has told meanwhile."""

from collections.abc import Iterable
from typing import Any

from slaternet.errors import SlaternetError
from slaternet.model import Agents, Answer, Departure, Finished, Progress
from slaternet_adversary.engine.events import Event, Refuse, Reply
from slaternet_adversary.journal.entries import Entry
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.shell.runtime import Runtime, completed

Told = Reply | Refuse | Progress | Finished


class Telling:
    """Drives a runtime and keeps what it tells."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        plugin, *others = arguments
        self.runtime = Runtime(PluginCalls(OpenRounds(plugin)), *others, **named)
        self.runtime.audience = self
        self._told: list[Told] = []

    def reply(self, host: str, answer: Answer) -> None:
        self._told.append(Reply(host, answer))

    def refuse(self, host: str, error: SlaternetError) -> None:
        self._told.append(Refuse(host, error))

    def report(self, progress: Progress) -> None:
        self._told.append(progress)

    def finish(self, progress: Progress) -> None:
        self._told.append(Finished())

    def seat(self, epoch: int, hosts: Iterable[tuple[str, Agents]], departures: Iterable[Departure] = ()) -> list[Told]:
        completed(self.runtime.seat(epoch, hosts, departures))
        return self._take()

    def handle(self, event: Event) -> list[Told]:
        completed(self.runtime.handle(event))
        return self._take()

    def work(self) -> list[Told]:
        completed(self.runtime.work())
        return self._take()

    def apply_entry(self, entry: Entry) -> None:
        completed(self.runtime.apply_entry(entry))
        assert self._take() == []

    def finish_recovery(self) -> list[Told]:
        completed(self.runtime.finish_recovery())
        return self._take()

    @property
    def idle(self) -> bool:
        return self.runtime.idle

    @property
    def totals(self) -> tuple[float, float, float, float]:
        return self.runtime.totals

    def replay_functions(self, round: int) -> None:
        completed(self.runtime.replay_functions(round))

    def close(self) -> None:
        self.runtime.close()

    def _take(self) -> list[Told]:
        told, self._told = self._told, []
        return told
