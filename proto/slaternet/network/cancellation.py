"""Cancellation of a task that waits for gRPC."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise CancelledError at the end of the block where its task was cancelled in it, however the block has ended.

    grpc.aio swallows a cancellation that arrives in the moment in which its call fails by itself: the task gets the
    call's error instead, and a task that dials again after an error would never end.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
