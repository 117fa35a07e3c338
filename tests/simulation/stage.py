"""Puts a world under the product: its clock, network, disks and chance stand where the real ones do."""

from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import grpc.aio
import structlog
from tests.simulation.games import LIMITS
from tests.simulation.loop import current
from tests.simulation.machines import Disks

from slaternet.environment import Environment
from slaternet.storage import failpoints
from slaternet_coordinator.shell.register_db import RegisterDb

if TYPE_CHECKING:
    from tests.simulation.world import World


def environment(world: "World") -> Environment:
    """Return what every process of a world lives with."""
    return Environment(world.loop.time, world.random, Disks(world), LIMITS, now=world.loop.time)


@contextmanager
def staged(world: "World") -> Iterator[None]:
    """Let the product play in a world."""
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(_quiet(world))
        for patch in (*_network(world), *_held(world)):
            enter(patch)
        failpoints.arm(lambda name: world.point(f"at {name}"))
        stack.callback(failpoints.arm, None)
        yield


@contextmanager
def _quiet(world: "World") -> Iterator[None]:
    """Let logs be a part of the story, where one is told."""
    before = structlog.get_config()

    def tell(_logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        what = event.pop("event")
        world.say(f"{method}: {what} {event}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[tell], wrapper_class=structlog.make_filtering_bound_logger(0 if world.telling else 50)
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _network(world: "World") -> Iterator[Any]:
    yield mock.patch.object(grpc.aio, "server", world.network.server)
    yield mock.patch.object(grpc.aio, "insecure_channel", world.network.channel)
    yield mock.patch("slaternet.service.join.reserved", world.network.reserved)
    yield mock.patch("slaternet.network.server.reflection.enable_server_reflection")


def _held(world: "World") -> Iterator[Any]:
    """Have a coordinator's database closed at its death, and let it die around a change: SQLite has no other seam."""
    opened, save = RegisterDb.open, RegisterDb.save

    def opening(*args: Any) -> RegisterDb:
        archive = opened(*args)
        if (life := current()) is not None:
            world.machines[life.name].at_death(archive.close)
        return archive

    def saving(archive: RegisterDb, *args: Any) -> None:
        world.point("before the register")
        save(archive, *args)
        world.point("behind the register")

    yield mock.patch.object(RegisterDb, "open", opening)
    yield mock.patch.object(RegisterDb, "save", saving)
