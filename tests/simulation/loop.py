"""An asyncio event loop on virtual time, for the processes of a game in one thread.

Whatever is scheduled belongs to a life: one process from its start to its death. A dead life's callbacks never run,
those of a paused one run when it goes on. Between two callbacks the clock jumps, so that waiting costs nothing; within
one it stands still.
"""

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import sys
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

_TICK = 1e-6
_PATIENCE = 64
"""How often a dead coroutine may wait for something while it lets go."""


class Died(BaseException):
    """The process is dead: nothing that it still does has any effect."""


@dataclass(eq=False)
class Life:
    """A process from its start to its death."""

    name: str
    number: int
    born: float = 0.0
    alive: bool = True
    paused_until: float = 0.0
    deferred: list[events.Handle] = field(default_factory=list)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    tasks: list["_Task"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.run(_LIFE.set, self)


_LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


def current() -> Life | None:
    """Return whose code runs; None: the world's own."""
    return _LIFE.get()


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    """A future, likewise."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class Loop(asyncio.AbstractEventLoop):
    """Runs what is due, in the order of time, and of scheduling where times are equal."""

    def __init__(self) -> None:
        self._now = 0.0
        self.steps = 0
        """How many callbacks have run."""
        self._numbers = itertools.count(1)
        self._due: list[tuple[float, int, events.Handle, Life | None]] = []
        self.errors: list[BaseException] = []
        """What callbacks have raised, and nobody has caught."""
        self._generators: list[AsyncGenerator[Any, Any]] = []  # kept, so that nobody closes them but we

    # what the world does with it

    def run_until(self, done: Callable[[], bool], deadline: float) -> None:
        """Run until `done`, tested after every callback; no further than `deadline`."""
        with self.running():
            while not done() and self._due and self._due[0][0] <= deadline:
                self._step()

    def _step(self) -> None:
        when, _, handle, life = heapq.heappop(self._due)
        self._now = max(self._now, when)
        if handle.cancelled() or (life is not None and not life.alive):
            return
        if life is not None and life.paused_until > self._now:
            life.deferred.append(handle)
            if len(life.deferred) == 1:
                self.outside(life.paused_until - self._now, self.go_on, life)
            return
        self.steps += 1
        handle._run()

    def go_on(self, life: Life) -> None:
        """Have a life do what has come up while it was paused, unless it still is."""
        if life.paused_until > self._now:
            self.outside(life.paused_until - self._now, self.go_on, life)
            return
        deferred, life.deferred = life.deferred, []
        for handle in deferred:
            self._push(self._now, handle, life)

    def outside(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Have the world itself do something after a while, whoever runs now and whether he lives then."""
        self.call_later(delay, callback, *args, context=contextvars.Context())

    @contextlib.contextmanager
    def running(self) -> Generator[None, None, None]:
        """Let asyncio find this loop."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=lambda generator: None)
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def spawn(self, life: Life, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Have a life do something; from within the loop or before it runs."""
        return life.context.copy().run(self.create_task, work)

    def bury(self, life: Life) -> None:
        """Let everything go that a dead life still holds; what its `finally` blocks try to do has no effect."""
        for task in life.tasks:  # may grow meanwhile
            coroutine = task.get_coro()
            for _ in range(_PATIENCE):
                if coroutine is None or getattr(coroutine, "cr_frame", None) is None:
                    break
                with contextlib.suppress(BaseException):
                    life.context.copy().run(coroutine.throw, Died())
        life.tasks.clear()

    def close(self) -> None:
        """Let go of everything."""
        self._due.clear()
        with self.running():
            for generator in self._generators:
                for _ in range(_PATIENCE):
                    with contextlib.suppress(BaseException):
                        generator.aclose().send(None)
                    if getattr(generator, "ag_frame", None) is None:
                        break
        self._generators.clear()

    # asyncio.AbstractEventLoop, as far as asyncio and the product use it

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._push(self._now, handle, _life_of(context))
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        # a clock goes on meanwhile: who waits for the last trillionth of a second must not find it still missing
        delay = max(delay, _TICK) if delay > 0.0 else 0.0
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        handle = events.TimerHandle(when, callback, args, self, context)
        self._push(when, handle, _life_of(context))
        return handle

    def _push(self, when: float, handle: events.Handle, life: Life | None) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), handle, life))

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Nothing: it is passed over when it is due."""

    def create_future(self) -> "asyncio.Future[Any]":
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> "asyncio.Task[T]":
        task = _Task(next(self._numbers), coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # the tasks of the dead are
        if (life := _life_of(context)) is not None:
            life.tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Do in one go, a moment later, what a thread would do; its life may die in the middle of it."""
        done = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

        self.call_later(0.001, work)
        return done

    def notice(self, task: "asyncio.Task[Any]") -> None:
        """Take down what a task has raised that nobody waits for."""
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Died):
            self.errors.append(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Died):
            self.errors.append(error if error is not None else AssertionError(context.get("message")))


def _life_of(context: contextvars.Context | None) -> Life | None:
    return _LIFE.get() if context is None else context.get(_LIFE)
