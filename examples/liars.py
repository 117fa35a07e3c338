"""Agents that always send a corner of the set, whatever they have decided: for examples/liars.toml.

    LyingZhang2024, LyingClipped    the algorithm of that name for all agents, and two of them lie

A host can check that a row lies in (1 - xi_t) X, so the liars send the farthest point of that.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slaternet_agent.algorithms.clipped import Clipped
from slaternet_agent.algorithms.zhang2024 import Zhang2024

LIARS = (3, 11)


class _Lying(Zhang2024):
    def outgoing(self, state: Any, t: int) -> NDArray[np.float64]:
        """Send what the others send, and of each liar the corner in which every coordinate is largest."""
        rows = super().outgoing(state, t)
        scale = self.row_scale(t)
        corner = self._set.project(np.full((1, rows.shape[1]), 1e6), scale=scale)
        return np.where(np.isin(state.agents, LIARS)[:, None], corner, rows)


class LyingZhang2024(_Lying):
    """Algorithm 1 with liars."""


class LyingClipped(_Lying, Clipped):
    """Clipped gossip with liars."""
