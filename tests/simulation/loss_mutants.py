"""Planted bugs of games that lose hosts for ever."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.simulation.mutants import forgetful, instead, mutant

from slaternet_agent.engine.rebuild import StateRebuild
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.reseating import Reseating
from slaternet_coordinator.engine.roster import Member
from slaternet_coordinator.engine.saved import SavedMember
from slaternet_coordinator.shell.monitor import AbsenceMonitor


@mutant("Agents leave before the last round that somebody has entered, and not after it.", losing=True)
def departed_too_early() -> Iterator[Any]:
    def make(reseat: Any) -> Any:
        return lambda reseating, first: reseat(reseating, None if first is None else max(first - 1, 2))

    yield instead(Reseating, "reseat", make)


@mutant("A host that was given up is let in when it comes back.", losing=True)
def lost_host_let_in() -> Iterator[Any]:
    for module in ("engine.coordinator", "engine.roster"):
        yield mock.patch(f"slaternet_coordinator.{module}.check_kept")


@mutant("Who left the game is forgotten with the coordinator.", losing=True)
def departures_forgotten() -> Iterator[Any]:
    return forgetful(departures=())


@mutant("Who was given up is forgotten with the coordinator.", losing=True)
def losses_forgotten() -> Iterator[Any]:
    def make(entry: Any) -> Any:
        def forgotten(member: Member) -> SavedMember:
            kept: SavedMember = entry.fget(member)
            return replace(kept, lost=False)

        return property(forgotten)

    yield instead(Member, "entry", make)


@mutant("Who takes seats over finds every memo in the journal to be 0.", losing=True)
def memos_forgotten() -> Iterator[Any]:
    def make(memo: Any) -> Any:
        return lambda rebuild, question: 0.0 * memo(rebuild, question)

    yield instead(StateRebuild, "_memo", make)


@mutant("Who takes seats over plays their agents as if they had seen nothing.", losing=True)
def adopted_from_scratch() -> Iterator[Any]:
    def make(init: Any) -> Any:
        def hasty(adoption: StateRebuild, *args: Any) -> None:
            init(adoption, *args)
            adoption._round = adoption._mark

        return hasty

    yield instead(StateRebuild, "__init__", make)


@mutant("Who reconnects while others hold is not told to hold.", losing=True)
def hold_not_repeated() -> Iterator[Any]:
    def make(recall: Any) -> Any:
        def silent(coordinator: Coordinator, member: Member, have: int) -> Iterator[Any]:
            with mock.patch.object(type(coordinator._roster), "lost_with_seats", []):
                yield from list(recall(coordinator, member, have))

        return silent

    yield instead(Coordinator, "_repeat", make)


@mutant("A host is given up after half its time.", losing=True)
def given_up_too_soon() -> Iterator[Any]:
    def make(init: Any) -> Any:
        def hasty(vigil: AbsenceMonitor, clock: Any, longest: float, *args: Any, **options: Any) -> None:
            init(vigil, clock, longest / 2, *args, **options)

        return hasty

    yield instead(AbsenceMonitor, "__init__", make)


@mutant("The graph goes on as if nobody had left.", losing=True)
def graph_not_cut() -> Iterator[Any]:
    yield mock.patch("slaternet_coordinator.engine.publication.Publication.depart")
