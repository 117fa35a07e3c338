"""One round of a topology: the host's rows of W_t, the rows it needs and the rows it owes."""

import itertools
from dataclasses import dataclass

import numpy as np

from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Topology


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round of a topology: the host's rows of W_t, whom it waits for and whom it owes."""

    starts: Agents  # (k + 1,)
    columns: Agents
    weights: Array
    needed: Agents  # agents of other hosts whose rows are mixed here
    debts: tuple[tuple[int, Agents], ...]  # index of a peer, and the own agents it is owed


def round_plans(
    topology: Topology, seats: Agents, agents: int, peers: int, *, remembers: bool = False
) -> list[RoundPlan]:
    """Cut a topology into rounds, having checked the host's own rows of every W_t (its part of Assumption 4).

    Where the gossip code `remembers`, what is owed in the first round is owed in all of them.
    """
    _check_rows(topology, seats, agents)
    debts = _debts(topology, seats, agents, peers)
    if remembers:
        if any(debts[1:]):
            raise Malformed("debts of a game whose code remembers are stated for the first round of a topology")
        debts = debts[:1] * topology.rounds
    k, rounds = len(seats), np.arange(topology.rounds)
    cuts = topology.starts[::k]  # where each round's entries begin
    starts = topology.starts[k * rounds[:, None] + np.arange(k + 1)] - cuts[:-1, None]
    needed = _needed(topology, cuts, seats, agents)
    ends = cuts.tolist()  # slices by Python's own numbers are made in half the time
    return [
        RoundPlan(starts[r], topology.columns[low:high], topology.weights[low:high], needed[r], tuple(debts[r]))
        for r, (low, high) in enumerate(itertools.pairwise(ends))
    ]


def _needed(topology: Topology, cuts: Agents, seats: Agents, agents: int) -> list[Agents]:
    """Return for each round the agents seated elsewhere whose rows are mixed here."""
    if len(seats) == agents:
        return [np.empty(0, dtype=np.intp)] * topology.rounds
    wanted = np.zeros((topology.rounds, agents), dtype=bool)
    wanted[np.repeat(np.arange(topology.rounds), np.diff(cuts)), topology.columns] = True
    wanted[:, seats] = False
    offsets, who = np.nonzero(wanted)
    ends = offsets.searchsorted(np.arange(topology.rounds + 1)).tolist()
    return [who[low:high] for low, high in itertools.pairwise(ends)]


def _debts(topology: Topology, seats: Agents, agents: int, peers: int) -> list[list[tuple[int, Agents]]]:
    """Return for each round the peers that are owed rows, and whose: the debts of a topology ascend."""
    owed: list[list[tuple[int, Agents]]] = [[] for _ in range(topology.rounds)]
    rounds, to, who = topology.debts[:, 0], topology.debts[:, 1], np.ascontiguousarray(topology.debts[:, 2])
    if not len(who):
        return owed
    own = np.zeros(agents, dtype=bool)
    own[seats] = True
    if who.max() >= agents or not own[who].all() or to.max() >= peers:
        raise Malformed("a host owes rows of its own agents to hosts of the game")
    pairs = rounds * peers + to
    firsts = [0, *(np.flatnonzero(pairs[1:] != pairs[:-1]) + 1).tolist()]
    for first, last in itertools.pairwise((*firsts, len(who))):
        round, peer = divmod(int(pairs[first]), peers)
        owed[round].append((peer, who[first:last]))
    return owed


def _check_rows(topology: Topology, seats: Agents, agents: int) -> None:
    """Rows of W_t that do not average would leave the feasible set unnoticed: refuse them before they are used.

    That a topology is made of rows of positive weights is checked where it is decoded.
    """
    starts, columns, weights = topology.starts, topology.columns, topology.weights
    rows, lengths = np.tile(seats, topology.rounds), np.diff(starts)
    if len(lengths) != len(rows):
        raise Malformed("a topology must hold one row per seat and round")
    if columns.max() >= agents:
        raise Malformed("the columns of a row of W_t must be agents of the game")
    if np.count_nonzero(columns == np.repeat(rows, lengths)) != len(rows):
        raise Malformed("a row of W_t needs a positive diagonal")
    if np.abs(np.add.reduceat(weights, starts[:-1]) - 1.0).max() > LIMITS.stochastic:
        raise Malformed(f"a row of W_t must sum to 1 within {LIMITS.stochastic:g}")
