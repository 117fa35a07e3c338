"""What lies between processes: how long a message takes, what befalls it, and how a call ends."""

import contextvars
from collections.abc import Callable
from typing import NamedTuple, Protocol

import grpc
import grpc.aio
from tests.simulation.loop import Life, Loop

UNAVAILABLE, LATE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED
LOOK = 0.5
"""Seconds between two looks whether a link that was held back has healed."""


class Weather(Protocol):
    """What befalls messages."""

    def delay(self) -> float:
        """Return how long a message takes."""

    def held(self, sender: str, receiver: str) -> float:
        """Return until when nothing gets through from one process to another."""

    def lost(self) -> bool:
        """Whether a unary message is lost."""

    def breaks(self) -> bool:
        """Whether a stream breaks at this message."""

    def silent(self) -> bool:
        """Whether an end of a broken stream does not learn of it."""

    def doubled(self) -> bool:
        """Whether a message comes twice."""

    def overtaken(self) -> bool:
        """Whether a message comes after the next one."""

    def point(self, where: str) -> None:
        """Reach a point at which the process may die."""


class Status(NamedTuple):
    """How a call ended."""

    code: grpc.StatusCode
    details: str
    metadata: tuple[tuple[str, str], ...] = ()


OK = Status(grpc.StatusCode.OK, "")
BROKEN = Status(UNAVAILABLE, "Stream removed")
CANCELLED = Status(grpc.StatusCode.CANCELLED, "Locally cancelled")


class Aborted(Exception):
    """A handler has ended its call with a status."""


def failure(status: Status) -> grpc.aio.AioRpcError:
    metadata = grpc.aio.Metadata(*status.metadata)
    return grpc.aio.AioRpcError(status.code, grpc.aio.Metadata(), metadata, details=status.details)


class Air:
    """Carries what one process sends to another."""

    def __init__(self, loop: Loop, weather: Weather) -> None:
        self.loop = loop
        self.weather = weather

    def post(self, sender: str, receiver: str, arrive: Callable[[], None], life: Life | None) -> None:
        """Have something happen to a life, or to nobody's, when what was sent now arrives."""
        context = contextvars.Context() if life is None else life.context

        def look() -> None:
            held, now = self.weather.held(sender, receiver), self.loop.time()
            if held > now:
                self.loop.call_at(min(held, now + LOOK), look, context=context)
            else:
                arrive()

        self.loop.call_later(self.weather.delay(), look, context=context)
