"""A game that is played again whenever one of its files is saved.

A child plays it, forked from this process, which has imported what a game needs and nothing of a user's. So the child
starts at once, and executes what is on the disk. The files are looked at several times a second.
"""

import contextlib
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from slaternet.errors import BadSpec
from slaternet.spec.paths import data_files, located
from slaternet.spec.plugins import ADVERSARIES, files
from slaternet_agent.code_registry import CODES
from slaternet_agent.registry import GROUP as ALGORITHMS
from slaternet_coordinator.registry import GROUP as GRAPHS
from slaternet_lab.specs.resolve import read
from slaternet_lab.specs.shipped import find

_LOOK = 0.05
"""Seconds between two looks at the files."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE = 1.0
"""Seconds that a child has to end, once it is asked to."""

Stamps = dict[Path, tuple[int, int, int] | None]
"""Of each file: when it was changed, its size, its place on the disk; None where there is none."""


class Watched:
    """The files of a game: its spec, the code that it names with all that this imports of its folder, and its data."""

    def __init__(self, what: str | None, settings: Iterable[str]) -> None:
        self._what = what
        self._settings = tuple(settings)
        self._paths: set[Path] = set()

    def find(self) -> Stamps:
        """Find the files anew, and return what they are like; those of before where the spec is wrong now."""
        with contextlib.suppress(BadSpec):  # the child that plays it says so
            self._paths = set(self._found())
        return self.stamps()

    def stamps(self) -> Stamps:
        """Return what the files are like."""
        return {path: _stamp(path) for path in self._paths}

    def settled(self) -> Stamps:
        """Wait until nobody writes to the files any more; return what they are like."""
        before, now = None, self.stamps()
        while now != before:
            time.sleep(_LOOK)  # nothing says that an editor has finished writing
            before, now = now, self.stamps()
        return now

    def _found(self) -> Iterator[Path]:
        source = Path(find(self._what).source)
        if source.is_file():
            yield source.resolve()
        spec = located(*read(self._what, self._settings))
        yield from map(Path, data_files(spec).values())
        if isinstance(path := spec.graph.numbers.get("path"), str):
            yield Path(path)
        yield from files(ADVERSARIES, spec.adversary.plugin, key="adversary.plugin")
        yield from files(ALGORITHMS, spec.algorithm.name, key="algorithm.name")
        yield from files(CODES, spec.gossip.code, key="gossip.code")
        yield from files(GRAPHS, spec.graph.name, key="graph.name")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:  # an editor may be replacing it
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def play_again(
    watched: Watched,
    play: Callable[[], object],
    ended: Callable[[int | None], object],
    saved: Callable[[list[Path]], object],
    *,
    meanwhile: Callable[[], object],
) -> NoReturn:
    """Have a child call `play` now, and again whenever a file has changed: `saved` is told which.

    `ended` is called once for each child with its exit code, negative: killed by that signal; None where it was ended
    because a file has changed. `meanwhile` is called while the first child plays: what it imports, all others have.
    Ctrl-C ends all with KeyboardInterrupt.
    """
    sys.dont_write_bytecode = True  # within a second, what is cached of a module would be taken for its new text
    warm = False
    while True:
        stamps = watched.find()
        with contextlib.closing(_Child(play)) as child:
            if not warm:
                meanwhile()
                gc.collect()
                gc.freeze()  # a collection in a child would copy all pages
                warm = True
            told = False
            while watched.stamps() == stamps:
                if not told and child.over:
                    told = True
                    ended(child.code)
                time.sleep(_LOOK)  # the next look: no event for a saved file exists on every system
        if not told:
            ended(None)
        now = watched.settled()
        saved([path for path in now if now[path] != stamps[path]])


class _Child:
    """A process that makes one call; its output is ours."""

    def __init__(self, play: Callable[[], object]) -> None:
        self.code: int | None = None
        """The exit code, negative: killed by that signal; None while it runs."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # or one would find the child where the parent is
        self._pid = os.fork()
        if not self._pid:
            _make(play, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def close(self) -> None:
        """End it: by KeyboardInterrupt, then by force."""
        if not self.over:
            os.kill(self._pid, signal.SIGTERM)
        last = time.monotonic() + _GRACE
        while not self.over:
            if time.monotonic() > last:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(_LOOK / 10)  # the next look; Python waits for a child either for ever or not at all


def _make(call: Callable[[], object], mask: Iterable[int]) -> NoReturn:
    """Make a call in a process just forked, with this signal mask, and end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code: object = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        random.seed()  # code that draws from these would draw the same in every child
        np.random.seed()
        call()
        code = 0
    except SystemExit as end:
        code = end.code
    finally:
        for output in (sys.stdout, sys.stderr):
            output.flush()
        os._exit(code if isinstance(code, int) else 1)
