"""Graphs from a file: W_t as an .npz, or a list of edges over time as text.

After its last round the file is played again from its first.
"""

import io

import numpy as np

from slaternet.errors import BadSpec
from slaternet.fields import checked
from slaternet.limits import LIMITS
from slaternet.numerics.npz import DAMAGE, NUMBERS, Archive
from slaternet_coordinator.graphs.assumption4 import check
from slaternet_coordinator.graphs.base import Matrix, Periodic
from slaternet_coordinator.graphs.edge_list import check_length, parse
from slaternet_coordinator.graphs.weights import Weights


class FileGraph(Periodic):
    """The graphs of a file, in turn: W_t is its round ((t - 1) mod rounds) + 1. Its content stands in place of a seed.

    An .npz holds `W` (rounds x n x n), as `slaternet graph --out` writes it; it is directed unless all of it is
    symmetric. Any other file is a list of edges (see `edge_list`): both ways, or with `directed` only [W_t]_ij, i
    receives from j. Where the list gives no weights, `weights` chooses them. The constructor checks all rounds.
    """

    @checked("graph")
    def __init__(
        self, agents: int, content: bytes, *, path: str, directed: bool = False, weights: Weights | None = None
    ) -> None:
        who = f"graph.path = {path}"
        matrix = (_archive if path.endswith(".npz") else _list)(content, agents, who, directed, weights)
        check(matrix, 1, who)
        self.directed = not _symmetric(matrix)
        super().__init__(matrix.split())


def _list(content: bytes, agents: int, who: str, directed: bool, weights: Weights | None) -> Matrix:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadSpec(f"{who} is neither .npz nor text; write lines of round, i, j and perhaps a weight") from None
    edges = parse(text, agents, who, directed=directed)
    if edges.weights is not None and weights is not None:
        raise BadSpec(f"graph.weights cannot be chosen, because {who} gives a weight on every line; remove the key")
    how = weights or "metropolis"
    return edges.directed(how) if directed else edges.undirected(how)


def _archive(content: bytes, agents: int, who: str, directed: bool, weights: Weights | None) -> Matrix:
    if directed or weights is not None:
        key = "graph.directed" if directed else "graph.weights"
        raise BadSpec(f"{key} is for lists of edges, and {who} says it all in W; remove the key")
    try:
        with Archive(io.BytesIO(content)) as archive:
            head = archive.head("W")
            rounds = head.shape[0] if head.shape else 0
            if not rounds or head.shape[1:] != (agents, agents) or head.dtype.kind not in NUMBERS:
                shape = " x ".join(map(str, head.shape)) or "a single one"
                raise BadSpec(f"{who} holds W of {head.dtype}, {shape}; make it real, rounds x {agents} x {agents}")
            check_length(rounds, agents, who)
            return _sparse(archive, agents, who)
    except KeyError:
        raise BadSpec(f"{who} holds no array W; write it with numpy.savez(path, W=W)") from None
    except DAMAGE:
        raise BadSpec(f"{who} is not an .npz of numbers; write it with numpy.savez(path, W=W)") from None


def _sparse(archive: Archive, agents: int, who: str) -> Matrix:
    """Return W by rows, read a few rows at a time: it has a few entries that are not 0 among very many."""
    lengths, columns, weights, count = [np.zeros(1, np.intp)], [], [], 0
    for block in archive.rows("W"):
        below = np.asarray(block, dtype=np.float64)
        rows, across = np.nonzero(below)
        lengths.append(np.bincount(rows, minlength=len(below)))
        # numpy gives the columns as every second number of an array, and scipy's graphs do not take them so
        columns.append(np.ascontiguousarray(across))
        weights.append(below[rows, across])
        count += len(rows)
        if count > LIMITS.edges:
            raise BadSpec(f"{who} holds more than {LIMITS.edges} weights that are not 0; make it shorter or sparser")
    return Matrix(agents, np.cumsum(np.concatenate(lengths)), np.concatenate(columns), np.concatenate(weights))


def _symmetric(matrix: Matrix) -> bool:
    """Return whether in every round i gives to j what j gives to i."""
    n, rows = matrix.agents, matrix.rows()
    there = rows * n + matrix.columns
    back = (rows - rows % n + matrix.columns) * n + rows % n
    order = back.argsort()
    alike = np.array_equal(back[order], there)
    return alike and bool(np.abs(matrix.weights[order] - matrix.weights).max() <= LIMITS.stochastic)
