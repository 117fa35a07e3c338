"""Graphs with a fixed structure: ring, complete, exponential, hypercube, torus, and none."""

import math

import numpy as np
from pydantic import PositiveInt

from slaternet.errors import BadSpec
from slaternet.fields import checked
from slaternet.model import Agents
from slaternet_coordinator.graphs.base import Periodic, check_edges
from slaternet_coordinator.graphs.directed import circulant
from slaternet_coordinator.graphs.weights import Weights, share, uniform, weighed


class Ring(Periodic):
    """Every agent with the next and the one before, the same in every round."""

    @checked("graph")
    def __init__(self, agents: int, seed: int, *, weights: Weights = "metropolis") -> None:
        del seed  # nothing is drawn
        i = np.arange(agents)
        super().__init__([weighed(weights, agents, _pairs(agents, i, (i + 1) % agents))])


class Complete(Periodic):
    """Everyone with everyone, the same in every round."""

    @checked("graph")
    def __init__(self, agents: int, seed: int, *, weights: Weights = "metropolis") -> None:
        del seed  # nothing is drawn
        check_edges(agents, agents * agents)
        super().__init__([weighed(weights, agents, np.stack(np.triu_indices(agents, 1), axis=1))])


class Exponential(Periodic):
    """Every agent with those 1, 2, 4, 8, ... places away.

    Static, undirected: i and i +- 2^k (mod n) for all 2^k < n. With one_peer the usual one-peer exponential graph
    (Ying et al. 2021), directed: in round t agent i receives from i - 2^((t - 1) mod tau) alone, tau = ceil(log2 n),
    with the weight that it gives itself. For n a power of two, tau rounds average exactly: their product is 11'/n.
    """

    @checked("graph")
    def __init__(self, agents: int, seed: int, *, one_peer: bool = False, weights: Weights = "metropolis") -> None:
        del seed  # nothing is drawn
        hops = [1 << k for k in range((agents - 1).bit_length())]
        # two agents, or one, are each other's only peer: directed in form only
        self.directed = one_peer and agents > 2
        both = sorted({each % agents for hop in hops for each in (hop, -hop)})
        turns = ([[hop] for hop in hops] or [[]]) if one_peer else [both]
        super().__init__([circulant(agents, turn, [share(weights, agents, len(turn))] * len(turn)) for turn in turns])


class Hypercube(Periodic):
    """Agents whose numbers differ in one binary digit, the same in every round; n a power of two."""

    @checked("graph")
    def __init__(self, agents: int, seed: int, *, weights: Weights = "metropolis") -> None:
        del seed  # nothing is drawn
        digits = agents.bit_length() - 1
        if agents != 1 << digits:
            near = f"{1 << digits} or {2 << digits}"
            raise BadSpec(f"run.agents = {agents} makes no hypercube, which needs a power of two; choose {near}")
        i, bit = np.indices((agents, digits))
        super().__init__([weighed(weights, agents, _pairs(agents, i, i ^ (1 << bit)))])


class Torus(Periodic):
    """Agents on a grid of rows x columns whose ends meet, numbered row by row, the same in every round.

    Unless given, the two sides are the factors of n nearest to each other.
    """

    @checked("graph")
    def __init__(
        self,
        agents: int,
        seed: int,
        *,
        rows: PositiveInt | None = None,
        columns: PositiveInt | None = None,
        weights: Weights = "metropolis",
    ) -> None:
        del seed  # nothing is drawn
        height, width = _sides(agents, rows, columns)
        i, j = np.indices((height, width))
        next_to = np.stack((i * width + (j + 1) % width, (i + 1) % height * width + j))
        super().__init__([weighed(weights, agents, _pairs(agents, i * width + j, next_to))])


class Nobody(Periodic):
    """No edges: W_t = I, so nothing is sent."""

    def __init__(self, agents: int, seed: int) -> None:
        del seed  # nothing is drawn
        super().__init__([uniform(agents, np.empty((0, 2), dtype=np.intp))])


def _pairs(agents: int, one: Agents, other: Agents) -> Agents:
    """Return the different pairs (i, j), i < j, that two arrays of agents form place by place."""
    keys = np.unique(np.minimum(one, other) * agents + np.maximum(one, other))
    low, high = np.divmod(keys, agents)
    apart = low != high
    return np.stack((low[apart], high[apart]), axis=1)


def _sides(agents: int, rows: int | None, columns: int | None) -> tuple[int, int]:
    if rows is None and columns is None:
        side = next(each for each in range(math.isqrt(agents), 0, -1) if agents % each == 0)
        if side == 1 < agents:
            raise BadSpec(
                f"run.agents = {agents} is prime and makes no torus; choose another number, "
                "or graph.rows = 1 for what is then a ring"
            )
        return side, agents // side
    height = rows or agents // (columns or 1)
    width = columns or agents // height
    if height * width != agents:
        raise BadSpec(
            f"graph.rows = {height} and graph.columns = {width} hold {height * width} agents, not {agents}; "
            "choose two numbers whose product is run.agents"
        )
    return height, width
