"""Planted bugs: each breaks one promise in one place, and the worlds of a few seeds must show it.

A mutant is a context manager that patches the product. What it breaks is its docstring.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from slaternet import checkpoints
from slaternet.checkpoints import Checkpoints
from slaternet.disk import DRAFT, Disk
from slaternet.journal import Durability, Journal
from slaternet.membership import Membership
from slaternet.model import Answer
from slaternet.streams import stream
from slaternet_adversary.chronicle import Purchase
from slaternet_adversary.referee import Commit, Evaluate, Evaluated
from slaternet_adversary.runtime import Runtime
from slaternet_adversary.tables import Table
from slaternet_agent import engine as agent
from slaternet_agent import estimators
from slaternet_agent.engine import Host
from slaternet_agent.mixing import Board, Gossip, Mixer, Plan
from slaternet_agent.reveal import Reveal
from slaternet_agent.runtime import Player
from slaternet_coordinator.engine import Coordinator
from slaternet_coordinator.events import Effect, Keep
from slaternet_coordinator.memory import Memory
from slaternet_coordinator.register import Member, Register

Mutant = Callable[[], AbstractContextManager[None]]
MUTANTS: dict[str, Mutant] = {}
"""By name."""


def _mutant(plant: Callable[[], Iterator[Any]]) -> Mutant:
    @contextmanager
    def planted() -> Iterator[None]:
        patches = list(plant())
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.stop()

    planted.__doc__ = plant.__doc__
    MUTANTS[plant.__name__] = planted
    return planted


def _instead(owner: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """Return a patch that puts what is made of a method in its place."""
    return mock.patch.object(owner, name, make(getattr(owner, name)))


# hosts


@_mutant
def stale_answer_taken() -> Iterator[Any]:
    """A host takes whatever answer comes for that to its question."""

    def make(finish: Any) -> Any:
        def careless(host: Host, answer: Answer) -> Any:
            stale = answer.round < host.round and host.pending is not None
            return finish(host, replace(answer, round=host.round) if stale else answer)

        return careless

    yield _instead(Host, "_finish_round", make)


@_mutant
def mixed_as_they_come() -> Iterator[Any]:
    """Rows are summed in the order in which they have arrived."""

    def make_put(put: Any) -> Any:
        def noted(board: Board, agents: Any, rows: Any) -> Any:
            arrivals.setdefault(id(board), []).extend(agents.tolist())
            return put(board, agents, rows)

        return noted

    def make_gossip(gossip: Any) -> Any:
        def hasty(mixer: Mixer, plan: Plan, board: Board) -> Gossip:
            order = {agent: place for place, agent in enumerate(arrivals.get(id(board), []))}
            columns, weights = plan.columns.copy(), plan.weights.copy()
            for low, high in zip(plan.starts[:-1], plan.starts[1:], strict=True):
                sorted_row = np.argsort([order.get(agent, -1) for agent in columns[low:high].tolist()], kind="stable")
                columns[low:high] = columns[low:high][sorted_row]
                weights[low:high] = weights[low:high][sorted_row]
            return gossip(mixer, replace(plan, columns=columns, weights=weights), board)  # type: ignore[no-any-return]

        return hasty

    arrivals: dict[int, list[int]] = {}
    yield _instead(Board, "put", make_put)
    yield _instead(Mixer, "gossip", make_gossip)


@_mutant
def directions_from_one_generator() -> Iterator[Any]:
    """Directions come from a generator that everybody shares, so that a restart draws others."""
    shared = stream(1, "direction")
    yield mock.patch.object(estimators, "stream", lambda *address: shared, create=True)
    yield mock.patch("slaternet_agent.game.stream", lambda *address: shared)


@_mutant
def resumes_from_newest() -> Iterator[Any]:
    """A host goes on from its newest checkpoint, not from that of M."""

    def make(recall: Any) -> Any:
        def newest(keeper: Any, round: int) -> Any:
            return recall(keeper, max(keeper._checkpoints.rounds(), default=round))

        return newest

    from slaternet_agent.keeper import Keeper

    yield _instead(Keeper, "recall", make)


@_mutant
def restored_dual_zeroed() -> Iterator[Any]:
    """What a dual has gathered is lost with the process."""

    def make(restored: Any) -> Any:
        def lossy(like: Any, payload: bytes) -> Any:
            state = restored(like, payload)
            return replace(state, q=np.zeros_like(state.q)) if hasattr(state, "q") else state

        return lossy

    yield _instead(agent, "restored", make)


@_mutant
def checkpoint_not_synced() -> Iterator[Any]:
    """A checkpoint is spoken of before its content is safe."""

    def careless(disk: Disk, path: Any, *pieces: Any) -> Any:
        beside = path.with_name(path.name + DRAFT)
        file = disk.create(beside)
        for piece in pieces:
            file.append(piece)
        file.close()
        return beside

    yield mock.patch.object(checkpoints, "draft", careless)


@_mutant
def checkpoint_name_not_synced() -> Iterator[Any]:
    """A checkpoint is spoken of before its name is safe."""
    yield mock.patch.object(checkpoints, "publish", lambda disk, beside, path: disk.rename(beside, path))


@_mutant
def checkpoint_of_m_removed() -> Iterator[Any]:
    """When M grows, the checkpoint at M goes with the older ones."""

    def make(forget: Any) -> Any:
        return lambda kept, round: forget(kept, round) or [
            kept.disk.remove(kept._path(each)) for each in kept.rounds() if each == round
        ]

    yield _instead(Checkpoints, "forget_before", make)


@_mutant
def frames_trimmed_early() -> Iterator[Any]:
    """A host forgets frames as soon as it has itself gone on."""
    yield _instead(Host, "_forget", lambda forget: lambda host, mark: forget(host, host.round))


@_mutant
def offers_one_too_few() -> Iterator[Any]:
    """A peer that says what it lacks gets all but the first of it."""
    yield _instead(Host, "_offer_again", lambda offer: lambda host, peer, first: offer(host, peer, first + 1))


@_mutant
def question_not_repeated() -> Iterator[Any]:
    """A question that was lost with its stream is not asked again."""

    def make(ask: Any) -> Any:
        def once(reveal: Reveal, question: Any) -> None:
            ask(reveal, question)
            reveal._unanswered = []

        return once

    yield _instead(Reveal, "ask", make)


# the adversary


@_mutant
def answered_before_journalled() -> Iterator[Any]:
    """Values go out, and are written down when the next ones are bought."""

    def late(runtime: Runtime, effect: Evaluate) -> Evaluated:
        values = runtime._functions.evaluate(effect.asked)
        for entry in owed:
            runtime._enter(entry)
        owed[:] = [Purchase(effect.asked, values)]
        return values

    owed: list[Purchase] = []
    yield mock.patch.object(Runtime, "_buy", late)


@_mutant
def acknowledged_before_synced() -> Iterator[Any]:
    """The journal promises to survive a loss of power, and does not wait for the disk."""

    def make(append: Any) -> Any:
        def hasty(journal: Journal, *record: Any, sync: bool = False) -> None:
            journal._durability = Durability.KILL
            append(journal, *record)

        return hasty

    yield _instead(Journal, "append", make)


@_mutant
def committed_after_granted() -> Iterator[Any]:
    """A round is committed to when it is over."""

    def make_commit(commit: Any) -> Any:
        return lambda runtime, effect: late.append(effect)

    def make_work(work: Any) -> Any:
        def working(runtime: Runtime) -> Any:
            result = work(runtime)
            if len(late) > 2:
                commit(runtime, late.pop(0))
            return result

        return working

    late: list[Commit] = []
    commit = Runtime._commit
    yield _instead(Runtime, "_commit", make_commit)
    yield _instead(Runtime, "work", make_work)


@_mutant
def volatile_ledger() -> Iterator[Any]:
    """What was bought is forgotten with the process."""

    def make(redo: Any) -> Any:
        return lambda runtime, entry: None if isinstance(entry, Purchase) else redo(runtime, entry)

    yield _instead(Runtime, "redo", make)


@_mutant
def torn_record_left() -> Iterator[Any]:
    """What a crash has torn stays in the journal, and is written on after."""

    def make(replay: Any) -> Any:
        def untidy(journal: Journal) -> Any:
            with mock.patch.object(type(journal._file), "truncate", lambda file, size: None):
                yield from replay(journal)

        return untidy

    yield _instead(Journal, "replay", make)


@_mutant
def rows_written_twice() -> Iterator[Any]:
    """After a crash the rows of the metrics are written once more."""

    def make(init: Any) -> Any:
        def again(table: Table, path: Any, columns: Any, **options: Any) -> None:
            init(table, path, columns, **options)
            table._settled = True
            table._file.seek(0, os.SEEK_END)

        return again

    yield _instead(Table, "__init__", make)


# the coordinator


@_mutant
def told_before_kept() -> Iterator[Any]:
    """What is published, and M with it, is told before it is written down."""

    def make(publish: Any) -> Any:
        def hasty(coordinator: Coordinator) -> list[Effect]:
            effects = publish(coordinator)
            return [each for each in effects if not isinstance(each, Keep)] + [
                each for each in effects if isinstance(each, Keep)
            ]

        return hasty

    yield _instead(Coordinator, "_publish", make)


def _forgetful(**forgotten: Any) -> Iterator[Any]:
    def make(restore: Any) -> Any:
        return lambda coordinator, memory: restore(coordinator, replace(memory, **forgotten))

    yield _instead(Coordinator, "restore", make)


@_mutant
def m_falls() -> Iterator[Any]:
    """A coordinator that comes back has forgotten M."""
    return _forgetful(low_water=0)


@_mutant
def published_forgotten() -> Iterator[Any]:
    """A coordinator that comes back has forgotten what is published."""
    return _forgetful(published=0)


@_mutant
def end_forgotten() -> Iterator[Any]:
    """The last round that was settled does not survive the coordinator."""

    def make(keep: Any) -> Any:
        def partly(coordinator: Coordinator, *members: Member) -> Keep:
            kept: Keep = keep(coordinator, *members)
            return replace(kept, memory=replace(kept.memory, settled=Memory().settled))

        return partly

    yield _instead(Coordinator, "_keep", make)


@_mutant
def marks_of_a_life_before() -> Iterator[Any]:
    """A host that comes back counts as being where it was when it died, though it plays again from M."""

    def make(readmit: Any) -> Any:
        def sanguine(coordinator: Coordinator, known: Member, join: Any) -> Any:
            mark, effects = known.mark, readmit(coordinator, known, join)
            coordinator._register[known.name].mark = mark
            return effects

        return sanguine

    yield _instead(Coordinator, "_readmit", make)


@_mutant
def incarnations_not_counted() -> Iterator[Any]:
    """A process that comes back is taken for the one that has died."""

    def make(readmit: Any) -> Any:
        def unaware(register: Register, known: Member, join: Any) -> Member:
            member: Member = readmit(register, known, join)
            member.incarnation = known.incarnation
            return member

        return unaware

    yield _instead(Register, "_readmit", make)


@_mutant
def stop_forgets_earlier_lives() -> Iterator[Any]:
    """The last round may lie before one that an earlier life of a host has entered."""

    def make(readmit: Any) -> Any:
        def blind(coordinator: Coordinator, known: Member, join: Any) -> Any:
            effects = readmit(coordinator, known, join)
            coordinator._register[known.name].reached = 0
            return effects

        return blind

    yield _instead(Coordinator, "_readmit", make)


@_mutant
def acknowledged_before_remembered() -> Iterator[Any]:
    """A process says that it knows of the end, and writes that down afterwards."""

    def make(leave: Any) -> Any:
        def hasty(membership: Membership, over: Any) -> None:
            from slaternet.model import Acknowledged

            membership.say(Acknowledged())
            leave(membership, over)

        return hasty

    yield _instead(Membership, "_leave", make)
