"""Checks of an adversary's options: each returns the number, or says in one sentence what it must be."""

import math

from slaternet_adversary.api import CannotPlay


def check_count(name: str, value: object) -> int:
    """Return an option that must be a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CannotPlay(f"adversary.options.{name} must be a whole number of at least 1, not {value!r}")
    return value


def check_number(name: str, value: object) -> float:
    """Return an option that must be a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CannotPlay(f"adversary.options.{name} must be a finite number, not {value!r}")
    return float(value)


def check_above_zero(name: str, value: object) -> float:
    """Return an option that must be above 0."""
    number = check_number(name, value)
    if not number > 0.0:
        raise CannotPlay(f"adversary.options.{name} must be above 0, not {number:g}")
    return number


def check_at_least_zero(name: str, value: object) -> float:
    """Return an option that must not be below 0."""
    number = check_number(name, value)
    if number < 0.0:
        raise CannotPlay(f"adversary.options.{name} must be at least 0, not {number:g}")
    return number


def check_part(name: str, value: object) -> float:
    """Return an option that must be a part of a whole, from 0 to below 1."""
    number = check_number(name, value)
    if not 0.0 <= number < 1.0:
        raise CannotPlay(f"adversary.options.{name} must be at least 0 and below 1, not {number:g}")
    return number
