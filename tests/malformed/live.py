"""Mutated messages at live servers, from a process of their own: what a stranger or an insider hears in answer."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import grpc
import grpc.aio
from tests.malformed.mutations import Mutator

from slaternet import codec, errors
from slaternet.errors import Malformed
from slaternet.model import Dispute, Disturbed, Failed, Frame, Head, Join, Question

FAR = 1 << 20
"""A round no game of these tests comes near to."""
DEADLINE = 60.0
STRANGERS = 8
"""Who speak at once where there is no opening."""


@dataclass(frozen=True)
class Lane:
    """Where mutated messages go, one after the other: each on a stream of its own, or as a call of its own."""

    what: str
    address: str
    method: str
    sound: tuple[bytes, ...]  # what they are made from
    opening: bytes = b""  # of an insider; a stranger has none, and its mutated message comes first
    head: Head | None = None  # under which an insider's message would be believed
    dimension: int = 1
    agents: int = 1
    hosts: tuple[str, ...] = ()  # who plays already

    def receiver(self) -> Callable[[bytes], Any]:
        """Return what the server decodes a message with."""
        kinds: dict[str, Callable[[], Callable[[bytes], Any]]] = {
            "Control": lambda: codec.decode_control_up,
            "Reveal": lambda: codec.RevealUpDecoder(self.dimension, agents=self.agents).decode,
            "Gossip": lambda: codec.GossipDecoder(self.dimension).decode,
            "Join": lambda: codec.decode_join,
            "Status": lambda: codec.decode_status_request,
            "Stop": lambda: codec.decode_stop_request,
        }
        return kinds[self.method.rpartition("/")[2]]()


Heard = tuple[str, bool, str, str]
"""The lane, whether the message keeps the wire contract, the status, and the error it names or else its details."""


def flood(lanes: Sequence[Lane], messages: int, seed: str) -> Counter[Heard]:
    """Send so many mutated messages on each lane, all lanes at once; return how often which answer was heard."""
    return asyncio.run(_flood(lanes, messages, seed))


async def _flood(lanes: Sequence[Lane], messages: int, seed: str) -> Counter[Heard]:
    heard: Counter[Heard] = Counter()
    async with asyncio.TaskGroup() as tasks:
        for lane in lanes:
            spoilt = _spoilt(lane, f"{seed}/{lane.what}")
            queue = [next(spoilt) for _ in range(messages)]
            if lane.opening:
                tasks.create_task(asyncio.to_thread(_speak, lane, queue, heard))
            else:
                tasks.create_task(_call_out(lane, queue, heard))
    return heard


def _spoilt(lane: Lane, seed: str) -> Iterator[tuple[bytes, bool]]:
    """Make messages without end, each with whether it keeps the wire contract, leaving out moves in the game."""
    mutator = Mutator(seed, list(lane.sound))
    for sound in itertools.cycle(lane.sound):
        data = mutator.spoil(sound)
        if (keeps := _keeps(lane, data)) is not None:
            yield data, keeps


def _keeps(lane: Lane, data: bytes) -> bool | None:
    """Say whether a message keeps the wire contract; None where it would be believed and is a move in the game."""
    try:
        decoded = lane.receiver()(data)
    except Malformed:
        return False
    return None if decoded is not None and _moves(lane, decoded) else True


def _moves(lane: Lane, decoded: Any) -> bool:
    """Say whether a message would be believed and is a move: a stop, a new process, a question, a frame, a failure."""
    if isinstance(decoded, Head):
        return True
    head, body = decoded
    match body:
        case Join():
            return head.sender not in lane.hosts
        case Question() | Frame():
            believed = lane.head is not None and replace(head, round=0) == replace(lane.head, round=0)
            return believed and bool(head.round < FAR)
        case Failed() | Dispute() | Disturbed():
            return lane.head is not None
        case _:
            return False


async def _call_out(lane: Lane, queue: list[tuple[bytes, bool]], heard: Counter[Heard]) -> None:
    """Send what strangers say, several at once."""
    async with grpc.aio.insecure_channel(lane.address) as channel, asyncio.TaskGroup() as tasks:
        # for streams too: one message and no more, in one go
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(lane.method)

        async def call_out() -> None:
            while queue:
                data, keeps = queue.pop()
                called = method(data, timeout=DEADLINE)
                with suppress(grpc.aio.AioRpcError):
                    async for _ in called:
                        pass
                said = await called.code(), await called.trailing_metadata(), await called.details()
                heard[lane.what, keeps, *_answer(*said)] += 1

        for _ in range(STRANGERS):
            tasks.create_task(call_out())


def _speak(lane: Lane, queue: list[tuple[bytes, bool]], heard: Counter[Heard]) -> None:
    """Send what an insider says, after an opening, each message on a stream that replaces the one before."""
    # not grpc.aio: a write that meets the end of the stream there hides the status it ended with
    with grpc.insecure_channel(lane.address) as channel:
        for data, keeps in queue:
            speak: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(lane.method)
            stream = speak(iter((lane.opening, data)), timeout=DEADLINE)
            with suppress(grpc.RpcError):
                for _ in stream:
                    pass
            answer = _answer(stream.code(), stream.trailing_metadata(), stream.details())
            heard[lane.what, keeps, *answer] += 1


def _answer(code: grpc.StatusCode, metadata: Any, details: str | None) -> tuple[str, str]:
    error = dict(metadata or ()).get("slaternet-error", "")
    return code.name, str(error) or details or ""


def surprises(heard: Counter[Heard]) -> dict[Heard, int]:
    """Return what should not have been heard.

    Whatever breaks the wire contract is malformed, unless a newer stream of the same host has come first; whatever
    keeps it is taken, or refused by the rules of the game with the status that belongs to the error.
    """
    return {answer: count for answer, count in heard.items() if not _right(*answer)}


def _right(lane: str, keeps: bool, status: str, error: str) -> bool:
    if not error:
        return status == "OK" and keeps
    if getattr(getattr(errors, error, None), "status", None) != status or error in (
        "Diverged",
        "PluginFailed",
        "Unreachable",
    ):
        return False
    return keeps or error in ("Malformed", "Replaced")
