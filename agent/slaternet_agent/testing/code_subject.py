"""A gossip code under examination: any exception is a fault, and what it returns is checked."""

import dataclasses
from collections.abc import Callable
from typing import Any

from slaternet.errors import Malformed, PluginFailed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet.plugin_faults import PluginFault
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.contract import rows_breach, symbols_breach

HUGE = "very large rows"
"""The rows that a code may refuse as too large for it."""


class CodeFault(Exception):
    """A breach of the contract; stays in the exam."""

    def __init__(self, about: str, text: str, fault: PluginFault | None = None) -> None:
        super().__init__(text)
        self.about = about
        self.fault = fault


class TooLarge(Exception):
    """The code refuses rows as too large for it, as it may with very large ones."""


class CodeSubject:
    """An instance whose code is not trusted."""

    def __init__(self, code: Code, width: int) -> None:
        self._code, self._width = code, width
        # one that is given as a factory has not been named by the registry
        self.layout: Layout = dataclasses.replace(code.layout, code=code.layout.code or "code")

    @property
    def promises(self) -> bool:
        """Whether the code declares a contraction or an error."""
        return self.contraction() is not None or self.error(1) is not None

    def contraction(self) -> float | None:
        """Return what the code declares."""
        bound: float | None = guarded("contraction", self._code.contraction)
        return bound

    def error(self, t: int) -> float | None:
        """Return what the code declares."""
        bound: float | None = guarded(f"error of round {t}", self._code.error, t)
        return bound

    def encode(self, kind: str, rows: Array, agents: Agents, t: int) -> Symbols:
        """Encode rows of a kind, and make the symbols read-only; TooLarge where the code may refuse them."""
        where = f"encode of round {t}"
        try:
            what = f" for {kind} of {self._width} numbers"
            symbols: Symbols = guarded(where, self._code.encode, rows, agents, t, what=what)
        except CodeFault as fault:
            if kind == HUGE and isinstance(getattr(fault.__cause__, "__cause__", None), ValueError):
                raise TooLarge from fault
            raise
        if breach := symbols_breach(symbols, self.layout, len(rows)):
            raise CodeFault("finite" if "finite" in breach else "layout", f"{where} {breach}")
        for each in (symbols.scales, symbols.numbers):
            each.setflags(write=False)
        return symbols

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Decode what `encode` has made, which must not be refused."""
        try:
            return self.receive(symbols, agents, t)
        except Malformed as refused:
            raise CodeFault("travels", f"decode of round {t} refuses what encode has made: {refused}") from refused

    def receive(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Decode what a peer may have sent; Malformed where the code refuses it."""
        where = f"decode of round {t}"
        rows: Array = guarded(where, self._code.decode, symbols, agents, t, passing=(Malformed,))
        if breach := rows_breach(rows, (len(agents), self._width)):
            raise CodeFault("layout", f"{where} {breach}")
        return rows


def guarded(
    where: str,
    method: Callable[..., Any],
    *arguments: object,
    what: str = "",
    passing: tuple[type[BaseException], ...] = (),
) -> Any:  # noqa: ANN401  of the method
    """Return what a method of the code returns; its exceptions but those `passing` are faults."""
    try:
        with plugin_edge("code", "of the exam", where.removeprefix("the ").partition(" ")[0], passing=passing):
            return method(*arguments)
    except PluginFailed as failure:
        raised = failure.fault.raised if failure.fault is not None else str(failure)
        if "read-only" in raised:
            text = f"{where} writes into an array it is given or has given away; make a new one"
            raise CodeFault("pure", text) from failure
        raise CodeFault("works", f"{where}{what} raised {raised}", failure.fault) from failure
