"""Powers and logarithms whose bits do not depend on the machine.

The C library's `pow` and `log` change their last bit with the CPU's instructions, so schedules take theirs from here.
"""

import functools
from decimal import Context, Decimal

_CONTEXT = Context(prec=50)


@functools.lru_cache(maxsize=4096)
def power(base: float, exponent: float) -> float:
    """Return base ** exponent, computed to 50 decimal digits and rounded once; base > 0.

    Raises ValueError for another base, OverflowError where the result is no finite number.
    """
    if not base > 0:
        raise ValueError(f"the base of a power must be positive, not {base}")
    result = float(_CONTEXT.power(Decimal(base), Decimal(exponent)))
    if result == float("inf"):
        raise OverflowError(f"{base} to the power {exponent} is too large")
    return result


@functools.lru_cache(maxsize=4096)
def logarithm(x: float) -> float:
    """Return ln x, computed to 50 decimal digits and rounded once; x > 0, otherwise ValueError."""
    if not x > 0:
        raise ValueError(f"only a positive number has a logarithm, not {x}")
    return float(_CONTEXT.ln(Decimal(x)))
