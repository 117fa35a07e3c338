"""Planted bugs of games in a gossip code."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from tests.simulation.mutants import instead, mutant

from slaternet.codec import coded
from slaternet_agent.engine.events import Send
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.public_copies import PeerCopies, PublicCopies
from slaternet_agent.engine.sent_rows import SentRows
from slaternet_agent.shell import session


def trusting(take: Any) -> Any:
    """Return `PeerCopies.take` for which no round is ever missing."""

    def take_all(copies: PeerCopies, frame: Any) -> Any:
        copies._round = frame.round - 1
        return take(copies, frame)

    return take_all


@mutant("A new stream goes on with the copies of the one before it.", coded=True)
def copies_not_reset() -> Iterator[Any]:
    def silent(host: Host, peer: int, first: int) -> Any:
        return [
            each for each in offer(host, peer, first) if not (isinstance(each, Send) and hasattr(each.frame, "rows"))
        ]

    offer = Host._offer_again
    yield mock.patch.object(PeerCopies, "reset", reset_once)
    yield instead(PeerCopies, "take", trusting)
    yield mock.patch.object(Host, "_offer_again", silent)


def reset_once(copies: PeerCopies) -> None:
    """Begin with the first stream alone."""
    if not hasattr(copies, "_round"):
        copies._round, copies._agents, copies._rows, copies._fresh = 0, copies._seats, None, True


@mutant("A difference that is missed is not missed: the next one is added all the same.", coded=True)
def gap_not_seen() -> Iterator[Any]:
    def make_offer(offer: Any) -> Any:
        return lambda host, peer, first: offer(host, peer, first + 1)

    yield instead(PeerCopies, "take", trusting)
    yield instead(Host, "_offer_again", make_offer)


@mutant("A row that is not far enough away to be sent changes the sender's own copy all the same.", coded=True)
def trigger_not_recorded() -> Iterator[Any]:
    def make(offer: Any) -> Any:
        def forgetful(rule: PublicCopies, rows: Any, before: Any, agents: Any, t: int) -> Any:
            message, copies = offer(rule, rows, before, agents, t)
            if message.sent is not None:
                copies = np.where(message.sent[:, None], copies, rows)
            return message, copies

        return forgetful

    yield instead(PublicCopies, "offer", make)


@mutant("Numbers are packed into one bit less than the largest needs.", coded=True)
def width_too_small() -> Iterator[Any]:
    def narrow(numbers: Any) -> int:
        return max(true(numbers) - 1, 0)

    def careless(numbers: Any, width: int) -> bytes:
        return pack(numbers & np.uint64((1 << width) - 1), width)

    true, pack = coded.width_of, coded.pack
    yield mock.patch.object(coded, "width_of", narrow)
    yield mock.patch.object(coded, "pack", careless)


@mutant("The public copies in a checkpoint are not those of its round.", coded=True)
def copies_of_another_round() -> Iterator[Any]:
    def make(remembered: Any) -> Any:
        def newest(sent: SentRows, round: int, agents: Any) -> Any:
            return remembered(sent, max(sent._rows), agents)

        return newest

    yield instead(SentRows, "remembered", make)


@mutant("What was public of a row is lost with the process.", coded=True)
def restored_copies_zeroed() -> Iterator[Any]:
    def make(restored: Any) -> Any:
        def lossy(like: Any, payload: bytes, width: int) -> Any:
            state = restored(like, payload, width)
            return replace(state, copies=np.zeros_like(state.copies))

        return lossy

    yield instead(session, "restored", make)
