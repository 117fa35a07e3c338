"""Refused messages, counted by kind of error and by host."""

from collections.abc import Callable

from slaternet.errors import Damaged, Diverged, Forgotten, Refused, RoundNotOpen, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Refusal

_LEAVES: tuple[type[SlaternetError], ...] = (*Refused.__subclasses__(), RoundNotOpen, Forgotten, Diverged)
KINDS = frozenset(kind.__name__ for kind in _LEAVES)
"""The errors that count as refusals. An honest process that is early, or repeats itself, causes none of them."""


def is_refusal(error: SlaternetError) -> bool:
    """Return whether an error counts as a refusal: the message broke the contract."""
    return isinstance(error, _LEAVES) and not isinstance(error, Damaged)  # a damaged file is our own fault


class RefusalCounter:
    """The refusals of one server, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._changed: Callable[[], None] = lambda: None

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every refusal."""
        self._changed = changed

    def count(self, error: SlaternetError, host: str) -> int:
        """Count a refused message, and return how many like it there were; `host` is empty without a ticket of its."""
        key = type(error).__name__, host
        if key not in self._counts and len(self._counts) >= LIMITS.breaches // 2:
            key = type(error).__name__, ""
        self._counts[key] = self._counts.get(key, 0) + 1
        self._changed()
        return self._counts[key]

    @property
    def all(self) -> tuple[Refusal, ...]:
        """All counts, by kind and host."""
        return tuple(Refusal(kind, host, count) for (kind, host), count in sorted(self._counts.items()))

    @property
    def by_kind(self) -> dict[str, int]:
        """How many refusals of each kind there were."""
        kinds: dict[str, int] = {}
        for breach in self.all:
            kinds[breach.kind] = kinds.get(breach.kind, 0) + breach.count
        return kinds
