"""Journals written anew with whole seals, as someone would who wants his changes to go unnoticed."""

import shutil
from collections.abc import Callable
from pathlib import Path

from slaternet.journal import read_title
from slaternet.records import Title, head_bytes, seal_of, title_bytes
from slaternet_adversary.chronicle import JOURNAL, Entry, encode, read
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
        kind, round, payload = encode(entry)
        head = head_bytes(seal, kind, round, payload)
        pieces += head, payload
        seal = seal_of(head)
    path.write_bytes(b"".join(pieces))
