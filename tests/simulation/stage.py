"""Puts a world under the product: its clock, network, disks and chance stand where the real ones do."""

import itertools
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from functools import partialmethod, wraps
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import grpc.aio
import structlog
from simulation.games import LIMITS as SMALL
from simulation.loop import current
from simulation.machines import Disks

import slaternet_coordinator.service
from slaternet import failpoints, lines
from slaternet.disk import DISK
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet_adversary.runtime import Runtime
from slaternet_agent.tally import Tally
from slaternet_coordinator.archive import Archive

if TYPE_CHECKING:
    from simulation.world import World

_DISK_OPERATIONS = ("create", "open", "rename", "remove", "names", "make_folder", "sync_folder", "lock")


@contextmanager
def staged(world: "World", disks: Disks) -> Iterator[None]:
    """Let the product play in a world."""
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(_small_limits())
        enter(_quiet(world))
        for patch in (*_network(world), *_clocks(world), *_chance(world.random)):
            enter(patch)
        for operation in _DISK_OPERATIONS:
            enter(mock.patch.object(DISK, operation, getattr(disks, operation), create=True))
        enter(
            mock.patch.object(failpoints, "_failpoint", SimpleNamespace(reach=lambda name: world.point(f"at {name}")))
        )
        for patch in _held(world):
            enter(patch)
        yield


@contextmanager
def _small_limits() -> Iterator[None]:
    # in place: the one object is the default of many parameters
    before = {name: getattr(LIMITS, name) for name in SMALL}
    try:
        for name, value in SMALL.items():
            object.__setattr__(LIMITS, name, value)
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(LIMITS, name, value)


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
    yield mock.patch("slaternet.transport.reflection.enable_server_reflection")


def _clocks(world: "World") -> Iterator[Any]:
    clock = world.loop.time
    yield mock.patch.object(lines, "time", SimpleNamespace(monotonic=clock))
    yield mock.patch.object(slaternet_coordinator.service, "time", SimpleNamespace(monotonic=clock))
    for timed in (Tally, Runtime):
        yield mock.patch.object(timed, "__init__", partialmethod(timed.__init__, clock=clock))


def _chance(random: Random) -> Iterator[Any]:
    service, numbers = slaternet_coordinator.service, itertools.count(1)

    def number(link: Link) -> int:
        """Stand in for a hash that depends on where a link lies in memory: servers have sets of them."""
        return int(vars(link).setdefault("_number", next(numbers)))

    yield mock.patch.object(Link, "__hash__", number)
    yield mock.patch.object(lines, "random", random)
    yield mock.patch.object(
        service, "uuid", SimpleNamespace(uuid4=lambda: uuid.UUID(int=random.getrandbits(128), version=4))
    )
    yield mock.patch.object(service, "secrets", SimpleNamespace(token_bytes=random.randbytes))


def _held(world: "World") -> Iterator[Any]:
    """Have what a process holds open closed at its death, and let it die around what it keeps."""

    def holding(method: Callable[..., Any], close: Callable[[Any, Any], None]) -> Callable[..., Any]:
        @wraps(method)
        def wrapped(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            if (life := current()) is not None and life.name in world.machines:
                world.machines[life.name].at_death(lambda: close(args[0], result))
            return result

        return wrapped

    opening = Archive.open.__func__  # type: ignore[attr-defined]
    yield mock.patch.object(Archive, "open", classmethod(holding(opening, lambda _, archive: archive.close())))
    keep = Archive.keep

    def keeping(archive: Archive, *args: Any) -> None:
        world.point("before the archive")
        keep(archive, *args)
        world.point("behind the archive")

    yield mock.patch.object(Archive, "keep", keeping)
