"""Planted bugs: each breaks one promise in one place, and the worlds of a few seeds must show it.

A mutant is a context manager that patches the product; its docstring says what it breaks.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.simulation.games import CODED, KINDS, departed, reference

from slaternet.model import Values
from slaternet.storage.journal import Durability, Journal
from slaternet_adversary.engine.events import Batch, Commit
from slaternet_adversary.journal.entries import Entry, bought, purchases
from slaternet_adversary.shell.resumable_csv import ResumableCsv
from slaternet_adversary.shell.runtime import Runtime
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import Effect, Keep
from slaternet_coordinator.engine.roster import Member, Roster
from slaternet_coordinator.engine.saved import SavedGame

Mutant = Callable[[], AbstractContextManager[None]]
MUTANTS: dict[str, Mutant] = {}
"""By name."""
LOSING: set[str] = set()
"""The names of those that need a game which loses hosts for ever."""
IN_CODES: set[str] = set()
"""The names of those that need a game in a gossip code; the others are planted in games without one."""


def mutant(story: str, *, losing: bool = False, coded: bool = False) -> Callable[[Callable[[], Iterator[Any]]], Mutant]:
    """Name a bug by the function that gives its patches, and say what it breaks.

    `losing`: it needs a game which loses hosts for ever; `coded`: one in a gossip code.
    """

    def name(plant: Callable[[], Iterator[Any]]) -> Mutant:
        @contextmanager
        def planted() -> Iterator[None]:
            for kind in CODED if coded else KINDS:
                reference(kind)  # as it goes without the bug
            with ExitStack() as stack:
                stack.callback(departed.cache_clear)
                for patch in plant():
                    stack.enter_context(patch)
                yield

        planted.__doc__ = story
        MUTANTS[plant.__name__] = planted
        if losing:
            LOSING.add(plant.__name__)
        if coded:
            IN_CODES.add(plant.__name__)
        return planted

    return name


def instead(owner: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """Return a patch that puts what is made of a method in its place."""
    return mock.patch.object(owner, name, make(getattr(owner, name)))


# the adversary


@mutant("Values go out, and are written down when the next ones are bought.")
def answered_before_journalled() -> Iterator[Any]:
    async def late(runtime: Runtime, batch: Batch) -> Values:
        values = await runtime._functions.evaluate(batch.question)
        for entry in owed:
            runtime._enter(entry)
        owed[:] = [bought(batch, values)]
        return values

    owed: list[Entry] = []
    yield mock.patch.object(Runtime, "_buy", late)


@mutant("The journal promises to survive a loss of power, and does not wait for the disk.")
def acknowledged_before_synced() -> Iterator[Any]:
    def make(append: Any) -> Any:
        def hasty(journal: Journal, *record: Any, sync: bool = False) -> None:
            journal._durability = Durability.KILL
            append(journal, *record)

        return hasty

    yield instead(Journal, "append", make)


@mutant("A round is committed to when it is over.")
def committed_after_granted() -> Iterator[Any]:
    def make_commit(commit: Any) -> Any:
        return lambda runtime, effect: late.append(effect)

    def make_work(work: Any) -> Any:
        async def working(runtime: Runtime) -> None:
            await work(runtime)
            if len(late) > 2:
                commit(runtime, late.pop(0))

        return working

    late: list[Commit] = []
    commit = Runtime._commit
    yield instead(Runtime, "_commit", make_commit)
    yield instead(Runtime, "work", make_work)


@mutant("What was bought is forgotten with the process.")
def volatile_ledger() -> Iterator[Any]:
    def make(apply_entry: Any) -> Any:
        async def forgetting(runtime: Runtime, entry: Entry) -> None:
            if not purchases(entry):
                await apply_entry(runtime, entry)

        return forgetting

    yield instead(Runtime, "apply_entry", make)


@mutant("What a crash has torn stays in the journal, and is written on after.")
def torn_record_left() -> Iterator[Any]:
    def make(replay: Any) -> Any:
        def untidy(journal: Journal) -> Any:
            with mock.patch.object(type(journal._file), "truncate"):
                yield from replay(journal)

        return untidy

    yield instead(Journal, "replay", make)


@mutant("After a crash the rows of the metrics are written once more.")
def rows_written_twice() -> Iterator[Any]:
    def make(init: Any) -> Any:
        def again(table: ResumableCsv, path: Any, columns: Any, **options: Any) -> None:
            init(table, path, columns, **options)
            table._settled = True
            table._file.seek(0, os.SEEK_END)

        return again

    yield instead(ResumableCsv, "__init__", make)


# the coordinator


@mutant("What is published, and M with it, is told before it is written down.")
def told_before_kept() -> Iterator[Any]:
    def make(publish: Any) -> Any:
        def hasty(coordinator: Coordinator) -> list[Effect]:
            effects = publish(coordinator)
            return [each for each in effects if not isinstance(each, Keep)] + [
                each for each in effects if isinstance(each, Keep)
            ]

        return hasty

    yield instead(Coordinator, "_publish", make)


def forgetful(**forgotten: Any) -> Iterator[Any]:
    """Yield the patch that lets a coordinator come back without something it has kept."""

    def make(restore: Any) -> Any:
        return lambda coordinator, memory, secret: restore(coordinator, replace(memory, **forgotten), secret)

    yield instead(Coordinator, "restore", make)


@mutant("A coordinator that comes back has forgotten M.")
def m_falls() -> Iterator[Any]:
    return forgetful(low_water=0)


@mutant("A coordinator that comes back has forgotten what is published.")
def published_forgotten() -> Iterator[Any]:
    return forgetful(published=0)


@mutant("The last round that was settled does not survive the coordinator.")
def end_forgotten() -> Iterator[Any]:
    def make(keep: Any) -> Any:
        def partly(coordinator: Coordinator) -> Keep:
            kept: Keep = keep(coordinator)
            return replace(kept, saved=replace(kept.saved, settled=SavedGame().settled))

        return partly

    yield instead(Coordinator, "_keep", make)


@mutant("A process that comes back is taken for the one that has died.")
def incarnations_not_counted() -> Iterator[Any]:
    def make(admit: Any) -> Any:
        def unaware(roster: Roster, name: str, join: Any) -> Member:
            known = roster.get(name)
            member: Member = admit(roster, name, join)
            if roster._begun and known is not None and known.plays:
                member.incarnation = known.incarnation
            return member

        return unaware

    yield instead(Roster, "admit", make)
