"""Writes a host's checkpoints while its rounds go on: in a thread, one write at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from slaternet.errors import Mismatch, SlaternetError
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.failpoints import failpoint
from slaternet_agent.engine.events import Checkpoint


class CheckpointWriter:
    """Writes checkpoints in order, and calls `kept` when one is durable, `failed` where writing failed.

    None is left out, however slow the disk: any of them may become the low-water mark.
    """

    def __init__(
        self, checkpoints: Checkpoints, *, kept: Callable[[int], None], failed: Callable[[SlaternetError], None]
    ) -> None:
        self._checkpoints = checkpoints
        self._kept = kept
        self._failed = failed
        self._jobs: deque[tuple[Callable[[], None] | None, Callable[[], None]]] = deque()
        self._working: asyncio.Task[None] | None = None
        self._mark = 0
        self._seating = 0

    def read(self, round: int, *, dispensable: bool = False) -> bytes | None:
        """Return the checkpoint of a round; Diverged where it is damaged.

        Where there is none: None if it is dispensable, else Mismatch.
        """
        if round not in self._checkpoints.rounds():
            if dispensable:
                return None
            raise Mismatch(
                f"{self._checkpoints.folder} holds no checkpoint of round {round}, from which {self._checkpoints.name} "
                "must go on; put back what was there, or start the whole game anew"
            )
        payload = self._checkpoints.read(round)
        failpoint("agent_during_recovery")
        return payload

    def drop_queued(self) -> None:
        """Drop queued writes of the previous seating; their completion is not reported."""
        self._jobs.clear()
        self._seating += 1

    def write(self, checkpoint: Checkpoint) -> None:
        """Queue a checkpoint."""
        round = checkpoint.round
        self._do(partial(self._checkpoints.write, round, checkpoint.payload), partial(self._kept, round))

    def forget_before(self, mark: int) -> None:
        """Remove the checkpoints before the low-water mark."""
        if mark > self._mark:
            self._mark = mark
            self._do(partial(self._checkpoints.forget_before, mark), lambda: None)

    def then(self, done: Callable[[], None]) -> None:
        """Call `done` once everything queued is written."""
        self._do(None, done)

    async def close(self) -> None:
        """Wait for the write in progress; drop the others."""
        self._jobs.clear()
        if self._working is not None:
            await asyncio.wait((self._working,))  # not the task itself: it must outlive its waiter

    def _do(self, work: Callable[[], None] | None, done: Callable[[], None]) -> None:
        self._jobs.append((work, done))
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="keep checkpoints")

    async def _work(self) -> None:
        try:
            while self._jobs:
                work, done = self._jobs.popleft()
                seating = self._seating
                if work is not None:
                    await asyncio.to_thread(work)
                if seating == self._seating:
                    done()
        except SlaternetError as error:
            self._jobs.clear()
            self._failed(error)
        finally:
            self._working = None
