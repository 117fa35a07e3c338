"""Journals written anew with whole seals, as someone would who wants his changes to go unnoticed."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slaternet.model import Array
from slaternet.storage.journal import read_title
from slaternet.storage.record_file import Title, head_bytes, seal_of, title_bytes
from slaternet_adversary.journal.entries import Entry, Purchase, encode
from slaternet_adversary.journal.journal import JOURNAL, read
from slaternet_lab import Run

Change = Callable[[list[Entry]], object]


def forged(run: Run, folder: Path, change: Change = list.copy, **title: str) -> Run:
    """Copy a run, and change what its journal says."""
    shutil.copytree(run.folder, folder)
    entries = list(read(folder))
    change(entries)
    rewrite(folder / JOURNAL, entries, {**read_title(folder / JOURNAL), **title})
    return Run.open(folder)


def rewrite(path: Path, entries: list[Entry], title: Title) -> None:
    """Write a journal of these entries, each sealed as it must be."""
    pieces = [title_bytes(title)]
    seal = seal_of(pieces[0])
    for entry in entries:
        kind, round, pieces_of_entry = encode(entry)
        payload = b"".join(pieces_of_entry)
        head = head_bytes(seal, kind, round, payload)
        pieces += head, payload
        seal = seal_of(head)
    path.write_bytes(b"".join(pieces))


def nth(entries: list[Entry], kind: type[Entry], round: int) -> int:
    """Return the place of the first entry of a kind about a round."""
    for place, entry in enumerate(entries):
        about = entry.asked.question.round if isinstance(entry, Purchase) else getattr(entry, "round", 0)
        if isinstance(entry, kind) and about == round:
            return place
    raise AssertionError(f"no {kind.__name__} of round {round}")


def nudged(array: Array, by: float) -> Array:
    """Return the array with the first number of its last row changed."""
    changed = array.copy()
    changed[(-1, *[0] * (array.ndim - 1))] += by
    return changed


def altering(round: int, *, x: float = 0.0, points: float = 0.0, f: float = 0.0, g: float = 0.0) -> Change:
    """Return a change of numbers in the first purchase of a round."""

    def altered(entry: Purchase) -> Purchase:
        asked, values = entry.asked, entry.values
        asks = asked.question
        question = replace(asks, x=nudged(asks.x, x), points=nudged(asks.points, points), x_is_first_point=False)
        values = replace(values, f=nudged(values.f, f), g=nudged(values.g, g))
        return Purchase(replace(asked, question=question), values)

    return lambda entries: change_purchase(entries, round, altered)


def change_purchase(entries: list[Entry], round: int, change: Callable[[Purchase], Purchase]) -> None:
    """Change the first purchase of a round."""
    place = nth(entries, Purchase, round)
    entry = entries[place]
    assert isinstance(entry, Purchase)
    entries[place] = change(entry)
