"""Reading the numbers of a spec: BadSpec names the key at fault."""

import sys

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Array


def number(key: str, value: object) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise BadSpec(f"{key} must be a finite number, not {repr(value)[:60]}")
    return float(value)


def positive(key: str, value: object) -> float:
    """Return a finite number above 0."""
    size = number(key, value)
    if not size > 0.0:
        raise BadSpec(f"{key} must be above 0, not {size:g}")
    return size


def vector(key: str, value: object, count: int, per: str = "coordinates") -> Array:
    """Return one number for each of `count` things as (count,); a single number stands for equal ones."""
    if not isinstance(value, list | tuple):
        return np.full(count, number(key, value))
    if len(value) != count:
        raise BadSpec(f"{key} has {len(value)} numbers; give one for each of the {count} {per}, or a single one")
    return np.array([number(key, each) for each in value])


def matrix(key: str, value: object, dimension: int) -> Array:
    """Return a list of rows of p numbers as (m, p), m >= 1."""
    if not isinstance(value, list | tuple) or not value:
        raise BadSpec(f"{key} must be a list of rows of {dimension} numbers each, not {repr(value)[:60]}")
    for place, row in enumerate(value):
        if not isinstance(row, list | tuple) or len(row) != dimension:
            count = f"{len(row)} numbers" if isinstance(row, list | tuple) else repr(row)[:60]
            raise BadSpec(f"{key}[{place}] is {count}; give a list with one for each of the {dimension} coordinates")
    return np.array([[number(f"{key}[{place}]", each) for each in row] for place, row in enumerate(value)])
