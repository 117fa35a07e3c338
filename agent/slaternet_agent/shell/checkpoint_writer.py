"""Keeps a host's checkpoints while its rounds go on: the disk is waited for in a thread, one write at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from slaternet.errors import Mismatch, SlaternetError
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.failpoints import failpoint
from slaternet_agent.engine.events import Checkpoint


class CheckpointWriter:
    """Does in order what it is told to; `kept` hears of every checkpoint that is durable, `failed` why there is none.

    None is left out, however slow the disk: the low-water mark may come to stand on any of them.
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

    def recall(self, round: int, *, dispensable: bool = False) -> bytes | None:
        """Return what was kept after a round, None where nothing was and that is no harm.

        Mismatch where it is missing, Diverged where it is damaged.
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

    def begin_again(self) -> None:
        """Have done with what an older seating had to keep: nobody is told of it any more."""
        self._jobs.clear()
        self._seating += 1

    def write(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint."""
        round = checkpoint.round
        self._do(partial(self._checkpoints.write, round, checkpoint.payload), partial(self._kept, round))

    def forget_before(self, mark: int) -> None:
        """Remove the checkpoints that nobody goes back to."""
        if mark > self._mark:
            self._mark = mark
            self._do(partial(self._checkpoints.forget_before, mark), lambda: None)

    def then(self, done: Callable[[], None]) -> None:
        """Call `done` once all that was to be kept is."""
        self._do(None, done)

    async def close(self) -> None:
        """Wait for the write that is under way; the others are not begun."""
        self._jobs.clear()
        if self._working is not None:
            await asyncio.wait((self._working,))  # and not the task itself: it must not end with whoever waits

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
