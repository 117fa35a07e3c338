"""Very many rows a'x <= b, and those that a point violates most."""

import tempfile

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Array

_BLOCK_BYTES = 64 << 20
"""Of one block of rows, the largest array that is processed at once."""
_BLOCKS = 16
"""Blocks kept in memory; further ones go to a temporary file."""


class Rows:
    """Every row a'x <= b so far, and 1/|a|, in blocks of bounded size."""

    def __init__(self, dimension: int, block_bytes: int = _BLOCK_BYTES, in_memory: int = _BLOCKS) -> None:
        self._p = dimension
        self._height = max(1, block_bytes // (8 * (dimension + 2)))
        self._in_memory = in_memory
        self._blocks: list[Array] = []
        self._count = 0

    def add(self, matrix: Array, bound: Array) -> None:
        """Add rows (k, p) and their bounds (k,)."""
        norms = np.sqrt(np.einsum("kp,kp->k", matrix, matrix))
        weights = 1.0 / np.where(norms > 0.0, norms, 1.0)
        rows = np.column_stack((matrix, bound, weights))
        while len(rows):
            block, start = divmod(self._count, self._height)
            if block == len(self._blocks):
                self._blocks.append(self._new_block())
            taken = rows[: self._height - start]
            self._blocks[block][start : start + len(taken)] = taken
            self._count += len(taken)
            rows = rows[len(taken) :]

    def take(self, chosen: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the chosen rows with unit normals, and their bounds."""
        block, start = np.divmod(chosen, self._height)
        rows = np.array([self._blocks[i][j] for i, j in zip(block, start, strict=True)]).reshape(-1, self._p + 2)
        return rows[:, :-2] * rows[:, -1:], rows[:, -2] * rows[:, -1]

    def farthest(self, x: Array, count: int, tolerance: float) -> tuple[NDArray[np.intp], float, float]:
        """Return the rows that x misses most, at most `count`, all by more than `tolerance`.

        Then the largest distance on the wrong side of a row, at least 0, and the largest a'x - b.
        """
        found, distances, largest = [np.empty(0, dtype=np.intp)], [np.empty(0)], -np.inf
        for i, block in enumerate(self._blocks):
            rows = block[: self._count - i * self._height]
            excess = rows[:, : self._p] @ x - rows[:, -2]
            largest = max(largest, float(excess.max()))
            excess *= rows[:, -1]
            missed = np.flatnonzero(excess > tolerance)
            if len(missed) > count:
                missed = missed[np.argpartition(-excess[missed], count)[:count]]
            found.append(missed + i * self._height)
            distances.append(excess[missed])
        distance = np.concatenate(distances)
        order = np.argsort(-distance, kind="stable")[:count]
        return np.concatenate(found)[order], float(distance.max(initial=0.0)), largest

    def _new_block(self) -> Array:
        shape = (self._height, self._p + 2)
        if len(self._blocks) < self._in_memory:
            return np.empty(shape)
        with tempfile.TemporaryFile() as file:  # the map outlives it
            return np.memmap(file, dtype=np.float64, mode="w+", shape=shape)
