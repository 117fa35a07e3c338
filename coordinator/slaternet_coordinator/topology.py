"""Cutting W_t by hosts: each host gets the rows of its own agents, and the list of rows it owes to others."""

from collections.abc import Sequence

import numpy as np

from slaternet.model import Agents, Topology
from slaternet_coordinator.graphs.weights import Matrix


def cut(first: int, matrices: Sequence[Matrix], seats: Sequence[Agents], low_water: int) -> list[Topology]:
    """Return one topology per host for consecutive rounds, all rounds handled at once."""
    agents, rounds = len(matrices[0].starts) - 1, len(matrices)
    columns = np.concatenate([matrix.columns for matrix in matrices])
    weights = np.concatenate([matrix.weights for matrix in matrices])
    lengths = np.concatenate([np.diff(matrix.starts) for matrix in matrices])
    starts = np.concatenate(([0], np.cumsum(lengths)))
    debts = _debts(lengths, columns, seats, agents, rounds)
    topologies = []
    for host, own in enumerate(seats):
        rows = (np.arange(rounds)[:, None] * agents + own).ravel()
        cuts = np.concatenate(([0], np.cumsum(lengths[rows])))
        # positions of the host's entries: each row's start, counted on
        entries = np.repeat(starts[rows] - cuts[:-1], lengths[rows]) + np.arange(cuts[-1])
        topologies.append(
            Topology(first, rounds, cuts, columns[entries], weights[entries], debts[host], low_water),
        )
    return topologies


def _debts(lengths: Agents, columns: Agents, seats: Sequence[Agents], agents: int, rounds: int) -> list[Agents]:
    """Return per host the sorted triples (round offset, index of the peer, own agent) of the rows it must send."""
    hosts = len(seats)
    owner = np.empty(agents, dtype=np.intp)
    for host, own in enumerate(seats):
        owner[own] = host
    row = np.repeat(np.arange(rounds * agents), lengths)
    offset, receiver, sender = row // agents, owner[row % agents], owner[columns]
    crossing = receiver != sender
    key = ((sender * rounds + offset) * hosts + receiver) * agents + columns
    unique = np.unique(key[crossing])
    rest, agent = np.divmod(unique, agents)
    rest, to = np.divmod(rest, hosts)
    by, at = np.divmod(rest, rounds)
    # a host's peers are all hosts but itself, in order
    triples = np.stack((at, to - (to > by), agent), axis=1)
    return np.split(triples, np.searchsorted(by, np.arange(1, hosts)))
