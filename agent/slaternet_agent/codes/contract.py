"""What a code must return: the exam and every game check the same."""

import numpy as np

from slaternet.model import Layout, Symbols
from slaternet.numerics.bits import width_of


def symbols_breach(symbols: object, layout: Layout, count: int) -> str:
    """Return how what `encode` returns for so many rows breaks the contract; empty: it does not."""
    if not isinstance(symbols, Symbols):
        return f"returns a {type(symbols).__name__}; return Symbols(scales, numbers)"
    wanted = (("scales", np.float32, (count, layout.scales)), ("numbers", np.uint64, (count, layout.numbers)))
    for name, kind, shape in wanted:
        array = getattr(symbols, name)
        if not _is_array(array, kind, shape):
            return f"returns {name} as {_described(array)}; its layout says {kind.__name__} of shape {shape}"
    if not np.isfinite(symbols.scales).all():
        return "returns scales that are not finite; raise ValueError for such rows"
    if layout.bits and width_of(symbols.numbers) > layout.bits:
        return f"returns a number that does not fit into the {layout.bits} bits of its layout"
    return ""


def rows_breach(rows: object, shape: tuple[int, int]) -> str:
    """Return how what `decode` returns for rows of this shape breaks the contract; empty: it does not."""
    if _is_array(rows, np.float64, shape):
        return ""
    return f"returns {_described(rows)}, not float64 of shape {shape}; return (k, width)"


def _is_array(found: object, kind: type[np.generic], shape: tuple[int, ...]) -> bool:
    return isinstance(found, np.ndarray) and found.dtype == kind and found.shape == shape


def _described(found: object) -> str:
    return f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
