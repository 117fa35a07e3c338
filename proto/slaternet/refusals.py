"""What a server has refused: counted by the kind of the error and by the host at fault."""

from collections.abc import Callable

from slaternet.errors import Diverged, Forgotten, Refused, RoundNotOpen, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Refusal

_LEAVES: tuple[type[SlaternetError], ...] = (*Refused.__subclasses__(), RoundNotOpen, Forgotten, Diverged)
KINDS = frozenset(kind.__name__ for kind in _LEAVES)
"""Errors that stand for a message against the rules. An honest process that comes too early, or again, makes none."""


def is_refusal(error: SlaternetError) -> bool:
    """Say whether an error stands for a message against the rules."""
    return isinstance(error, _LEAVES)


class RefusalCounter:
    """The breaches at one server. However many callers break the rules, what is kept is bounded."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._changed: Callable[[], None] = lambda: None

    def watch(self, changed: Callable[[], None]) -> None:
        """Say who is told of every breach."""
        self._changed = changed

    def count(self, error: SlaternetError, host: str) -> None:
        """Count a message that was refused; `host` is empty where the caller had not shown whose it is.

        Nobody is blamed on the word of a caller alone: a name counts only after its ticket.
        """
        key = type(error).__name__, host
        if key not in self._counts and len(self._counts) >= LIMITS.breaches // 2:
            key = type(error).__name__, ""
        self._counts[key] = self._counts.get(key, 0) + 1
        self._changed()

    @property
    def all(self) -> tuple[Refusal, ...]:
        """All that was counted, by kind and host."""
        return tuple(Refusal(kind, host, count) for (kind, host), count in sorted(self._counts.items()))

    @property
    def by_kind(self) -> dict[str, int]:
        """How many breaches of each kind there were."""
        kinds: dict[str, int] = {}
        for breach in self.all:
            kinds[breach.kind] = kinds.get(breach.kind, 0) + breach.count
        return kinds
