"""Remedies for unknown words in error messages."""

import difflib
from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown word: `did you mean X?`, or all known ones when none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"choose from {', '.join(names)}" if names else "there is none to choose from"
