"""The gossip code of a game, while it is played: what goes wrong in it is said in its own name.

A user's code may raise anything, or return what its layout does not say. Rows that are too large for a code are its
failure as well, and the error names the agents whose rows they are.
"""

from dataclasses import replace

import numpy as np

from slaternet.errors import Malformed, PluginFailed
from slaternet.model import Agents, Array, Symbols
from slaternet.spec.author_frames import broken, raised
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.contract import rows_breach, symbols_breach

_KIND = "gossip code"
_TOO_LARGE = "choose a code that takes such rows, or numbers with which they stay smaller"


class GuardedCode(Code):
    """A code whose errors are PluginFailed, but for Malformed symbols, and whose results keep the contract."""

    def __init__(self, code: Code, width: int) -> None:
        self._code = code
        self.width, self.layout = width, code.layout

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the code of the vectors."""
        with self._edge("encode", agents, t, PluginFailed):
            try:
                symbols = self._code.encode(vectors, agents, t)
            except ValueError as error:
                raise self._refused(error, vectors, agents, t) from error
        if breach := symbols_breach(symbols, self.layout, len(agents)):
            raise self._broken("encode", agents, t, breach)
        return symbols

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return what the code makes of them; Malformed where no encoder makes these symbols."""
        with self._edge("decode", agents, t, Malformed):
            rows = self._code.decode(symbols, agents, t)
        if breach := rows_breach(rows, (len(agents), self.width)):
            raise self._broken("decode", agents, t, breach)
        if not np.isfinite(rows).all():
            raise Malformed("numbers must be finite")
        return rows

    def _edge(self, method: str, agents: Agents, t: int, passing: type[Exception]) -> plugin_edge:
        return plugin_edge(_KIND, self.layout.code, method, t, agents, of=self._code, passing=(passing,))

    def _broken(self, method: str, agents: Agents, t: int, breach: str) -> PluginFailed:
        what, _, remedy = breach.partition("; ")
        fault = broken(self._code, method, t, agents, what, remedy or "correct its code")
        return PluginFailed.by(f"{_KIND} {self.layout.code}", fault)

    def _refused(self, error: ValueError, vectors: Array, agents: Agents, t: int) -> PluginFailed:
        """Return the error for rows that the code refuses, about those agents that it refuses alone."""
        alone = np.array([self._refuses(vectors[i : i + 1], agents[i : i + 1], t) for i in range(len(agents))], bool)
        fault = raised(error, "encode", t, agents[alone] if alone.any() else agents, self._code)
        if not fault.frames:  # no line of a user's: nothing is wrong with the code
            fault = replace(fault, remedy=_TOO_LARGE)
        return PluginFailed.by(f"{_KIND} {self.layout.code}", fault)

    def _refuses(self, vector: Array, agent: Agents, t: int) -> bool:
        try:
            self._code.encode(vector, agent, t)
        except ValueError:
            return True
        return False
