"""What the rows of a game have cost: told by its hosts, or for a simulation, where nothing is sent, computed.

Computed are the bytes of the rows of a round in the game's code as if all of them travelled once, in one frame, without
its head. Rows as they are take 8 bytes a number. What a code makes of them depends on the rows themselves, so a
simulation counts that while it plays, and leaves it in gossip.csv, a line for each round: `round`, `rows_sent`,
`row_bytes`.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet.numerics.bits import packed_bytes, width_of
from slaternet.storage.disk import replace_file
from slaternet.storage.files import FILE_LIMITS, read_bytes, refusing
from slaternet_adversary.shell.run_folder import ROWS
from slaternet_agent.codes.base import Code
from slaternet_lab.runs.run import Run

_HEADER = "round,rows_sent,row_bytes"


def row_bytes(symbols: Symbols, layout: Layout) -> int:
    """Return the bytes of rows in one frame, without its head."""
    bits = layout.bits or width_of(symbols.numbers)
    return 4 * symbols.scales.size + packed_bytes(symbols.numbers.size, bits)


class CountedCode(Code):
    """A code that counts, by round, the rows that it encodes and their bytes."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self.layout = code.layout
        self.rounds: dict[int, tuple[int, int]] = {}

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the code of the vectors, counted."""
        symbols = self._code.encode(vectors, agents, t)
        self.rounds[t] = len(agents), row_bytes(symbols, self.layout)
        return symbols

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return what the code makes of them."""
        return self._code.decode(symbols, agents, t)


def write(rounds: Mapping[int, tuple[int, int]], folder: Path) -> None:
    """Write gossip.csv."""
    lines = [_HEADER, *(f"{t},{rows},{size}" for t, (rows, size) in sorted(rounds.items()))]
    replace_file(folder / ROWS, ("\n".join(lines) + "\n").encode())


def spent(run: Run) -> Array | None:
    """Return the bytes of rows up to each round of a finished run; None where nobody has counted them."""
    metrics, gossip = run.metrics, run.spec.gossip
    told = metrics.get("gossip_bytes")
    if told is not None and told.any():
        found = told
    elif gossip.plain and gossip.row_width is not None:
        found = 8 * gossip.row_width * metrics["agents"]
    elif (run.folder / ROWS).is_file():
        found = _read(run.folder / ROWS, run.rounds)
    else:
        return None
    sums: Array = np.cumsum(found, dtype=np.float64)
    return sums


def _read(path: Path, rounds: int) -> Array:
    sentence = f"{path} is not as a simulation writes it; delete it, or simulate the game again"
    with refusing(sentence):
        header, *lines = read_bytes(path, most=FILE_LIMITS.graph_bytes).decode().splitlines() or [""]
        cells = [line.split(",") for line in lines]
        numbers = [int(size) for _, _, size in cells]
        if header != _HEADER or [int(t) for t, _, _ in cells] != list(range(1, rounds + 1)):
            raise BadSpec(sentence)
        found: Array = np.array(numbers, dtype=np.float64)
        if found.size and not 0.0 <= found.min() <= found.max() <= 2.0**63:
            raise BadSpec(sentence)
    return found
