"""Work on large arrays a few rows at a time."""

from collections.abc import Iterator

_CACHE_BYTES = 1 << 18
"""Arrays of this size stay in a processor's cache between two operations."""


def pieces(rows: int, numbers: int) -> Iterator[slice]:
    """Yield consecutive parts of some rows, each small enough for the cache where a row takes so many numbers."""
    step = max(1, _CACHE_BYTES // max(8 * numbers, 1))
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))
