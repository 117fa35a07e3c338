"""Planted bugs of hosts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from tests.simulation.mutants import instead, mutant

from slaternet.model import Answer
from slaternet.numerics.randomness import stream
from slaternet.storage import checkpoints
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.disk import DRAFT, Disk
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.round_plan import RoundPlan
from slaternet_agent.engine.rows import Mixer, RoundGossip, RowTable
from slaternet_agent.shell import session as place
from slaternet_agent.shell.checkpoint_writer import CheckpointWriter
from slaternet_agent.shell.reveal import RevealStream


@mutant("A host takes whatever answer comes for that to its question.")
def stale_answer_taken() -> Iterator[Any]:
    def make(finish: Any) -> Any:
        def careless(host: Host, answer: Answer) -> Any:
            stale = answer.round < host.round and host.pending is not None
            return finish(host, replace(answer, round=host.round) if stale else answer)

        return careless

    yield instead(Host, "_finish_round", make)


@mutant("Rows are summed in the order in which they have arrived.")
def mixed_as_they_come() -> Iterator[Any]:
    def make_put(put: Any) -> Any:
        def noted(board: RowTable, agents: Any, rows: Any) -> Any:
            arrivals.setdefault(id(board), []).extend(agents.tolist())
            return put(board, agents, rows)

        return noted

    def make_gossip(gossip: Any) -> Any:
        def hasty(mixer: Mixer, plan: RoundPlan, board: RowTable) -> RoundGossip:
            order = {agent: place for place, agent in enumerate(arrivals.get(id(board), []))}
            columns, weights = plan.columns.copy(), plan.weights.copy()
            for low, high in zip(plan.starts[:-1], plan.starts[1:], strict=True):
                sorted_row = np.argsort([order.get(agent, -1) for agent in columns[low:high].tolist()], kind="stable")
                columns[low:high] = columns[low:high][sorted_row]
                weights[low:high] = weights[low:high][sorted_row]
            return gossip(mixer, replace(plan, columns=columns, weights=weights), board)  # type: ignore[no-any-return]

        return hasty

    arrivals: dict[int, list[int]] = {}
    yield instead(RowTable, "put", make_put)
    yield instead(Mixer, "gossip", make_gossip)


@mutant("Directions come from a generator that everybody shares, so that a restart draws others.")
def directions_from_one_generator() -> Iterator[Any]:
    shared = stream(1, "direction")
    yield mock.patch("slaternet_agent.algorithms.game.stream", return_value=shared)
    yield mock.patch("slaternet_agent.algorithms.estimators.streams", lambda *address: (shared for _ in address[-1]))


@mutant("A host goes on from its newest checkpoint, not from that of M.")
def resumes_from_newest() -> Iterator[Any]:
    def make(read: Any) -> Any:
        def newest(writer: Any, round: int, **options: Any) -> Any:
            return read(writer, max(writer._checkpoints.rounds(), default=round), **options)

        return newest

    yield instead(CheckpointWriter, "read", make)


@mutant("What a dual has gathered is lost with the process.")
def restored_dual_zeroed() -> Iterator[Any]:
    def make(restored: Any) -> Any:
        def lossy(like: Any, payload: bytes, width: int) -> Any:
            state = restored(like, payload, width)
            inner = state.algorithm
            return replace(state, algorithm=replace(inner, q=np.zeros_like(inner.q))) if hasattr(inner, "q") else state

        return lossy

    yield instead(place, "restored", make)


@mutant("A checkpoint is spoken of before its content is safe.")
def checkpoint_not_synced() -> Iterator[Any]:
    def careless(disk: Disk, path: Any, *pieces: Any) -> Any:
        beside = path.with_name(path.name + DRAFT)
        file = disk.create(beside)
        for piece in pieces:
            file.append(piece)
        file.close()
        return beside

    yield mock.patch.object(checkpoints, "draft", careless)


@mutant("A checkpoint is spoken of before its name is safe.")
def checkpoint_name_not_synced() -> Iterator[Any]:
    yield mock.patch.object(checkpoints, "publish", lambda disk, beside, path: disk.rename(beside, path))


@mutant("When M grows, the checkpoint at M goes with the older ones.")
def checkpoint_of_m_removed() -> Iterator[Any]:
    def make(forget: Any) -> Any:
        def thorough(kept: Checkpoints, mark: int) -> None:
            forget(kept, mark)
            if mark in kept.rounds():
                kept.disk.remove(kept._path(mark))

        return thorough

    yield instead(Checkpoints, "forget_before", make)


@mutant("A host forgets frames as soon as it has itself gone on.")
def frames_trimmed_early() -> Iterator[Any]:
    yield instead(Host, "_forget", lambda forget: lambda host, mark: forget(host, host.round))


@mutant("A peer that says what it lacks gets all but the first of it.")
def offers_one_too_few() -> Iterator[Any]:
    yield instead(Host, "_offer_again", lambda offer: lambda host, peer, first: offer(host, peer, first + 1))


@mutant("A question that was lost with its stream is not asked again.")
def question_not_repeated() -> Iterator[Any]:
    def make(ask: Any) -> Any:
        def once(reveal: RevealStream, question: Any) -> None:
            ask(reveal, question)
            reveal._unanswered = []

        return once

    yield instead(RevealStream, "ask", make)
