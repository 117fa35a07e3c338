"""`slaternet resume`: a run whose machine was switched off goes on, and one that is finished is played on."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from slaternet.errors import BadSpec
from slaternet.model import COORDINATOR
from slaternet.spec import Spec
from slaternet.storage.state_dir import StateDir
from slaternet_adversary.journal.journal import begun
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.shell.register_db import RegisterDb
from slaternet_lab.games.extend import Extension, check
from slaternet_lab.games.finish import finish
from slaternet_lab.games.manifest import ADVERSARY, Manifest, register_of, spec_of, states_of
from slaternet_lab.games.processes import PARTING_SECONDS, Supervisor
from slaternet_lab.games.progress import Watcher
from slaternet_lab.runs.plots import FIGURES
from slaternet_lab.runs.run import Run

_LOOK_SECONDS = 0.05


def resume(
    folder: str | Path,
    *,
    rounds: int | None = None,
    progress: Watcher | None = None,
    figures: bool = True,
    restart: bool = True,
) -> Run:
    """Go on with a run that `play` has begun and that was cut short; return its run folder.

    Hosts that were given up stay so: the game goes on without them.

    `rounds` gives it another last round, also where it is finished: then it is played on, to the digest of a run that
    was begun with so many.
    """
    return prepare(folder, rounds=rounds).play(progress, figures=figures, restart=restart)


@dataclass(frozen=True)
class Resumption:
    """A run that can go on."""

    folder: Path
    manifest: Manifest
    spec: Spec
    """As the run is begun with: agents that it has lost are still in it."""
    lost: frozenset[str]
    """The hosts that were given up."""
    over: bool
    """Whether only the figures are lacking."""

    def play(self, progress: Watcher | None = None, *, figures: bool = True, restart: bool = True) -> Run:
        """Play to the end, as `slaternet_lab.play` does."""
        if not self.over:
            Supervisor(
                folder=self.folder,
                manifest=self.manifest,
                progress=progress,
                restart=restart,
                again=True,
                without=self.lost,
            ).run()
        return finish(self.folder, figures=figures)


def prepare(folder: str | Path, *, rounds: int | None = None, patience: float = PARTING_SECONDS) -> Resumption:
    """Find out how a run stands and make it ready to go on, in one step or not at all; BadSpec where it cannot.

    Processes that still run have so many seconds to end: they do when their parent has died.
    """
    folder = Path(folder)
    manifest = _manifest_of(folder)
    spec = _spec_of(folder)
    with _held(folder, manifest, time.monotonic() + patience) as states:
        memory = _recall(folder, states)
        run = states[COORDINATOR].past_run if register_of(folder).exists() else ""
        reopening = Extension(folder, manifest, states, run)
        if spec.run.rounds != manifest.rounds:  # an earlier call was cut short
            spec = reopening.complete(spec)
            memory = _recall(folder, states)
        if rounds is not None:
            _check_end(folder, spec, memory, rounds)
            check(folder, spec, rounds)
            reopening = reopening.decide(rounds)
            spec = reopening.complete(spec)
        lost = frozenset(entry.name for entry in memory.members if entry.lost)
        return Resumption(folder, reopening.manifest, spec, lost, rounds is None and _is_over(folder, memory))


def _manifest_of(folder: Path) -> Manifest:
    if not folder.is_dir():
        raise BadSpec(f"{folder} is not a run folder; name a folder that `slaternet run` has written")
    manifest = Manifest.read(folder)
    if manifest is not None:
        return manifest
    if begun(folder):
        raise BadSpec(
            f"{folder} cannot be resumed without {states_of(folder)}, where `slaternet run` keeps the states of its "
            "processes; put that back, or start services that were started one by one again as they were"
        )
    if (folder / "spec.toml").exists():
        raise BadSpec(
            f"{folder} was simulated, so there is nothing to resume; play it with `slaternet simulate {folder}`, to "
            "which --set run.rounds=N gives another end"
        )
    raise BadSpec(f"{folder} is not a run folder; name a folder that `slaternet run` has written")


def _spec_of(folder: Path) -> Spec:
    path = spec_of(folder)
    try:
        return Spec.parse(path.read_text(encoding="utf-8"), source=str(path))
    except FileNotFoundError:
        raise _lost(folder, COORDINATOR) from None


@contextmanager
def _held(folder: Path, manifest: Manifest, deadline: float) -> Iterator[dict[str, StateDir]]:
    """Hold the states of all processes, so that none of them runs meanwhile; each then takes its own."""
    with ExitStack() as held:
        states: dict[str, StateDir] = {}
        for name, role in manifest.roles.items():
            while (state := StateDir.claim_idle(states_of(folder), name, role=role)) is None:
                if time.monotonic() < deadline:
                    time.sleep(_LOOK_SECONDS)  # no system tells that a lock is free without taking it
                    continue
                raise BadSpec(
                    f"{folder} is being played, because {name} is running; wait for its end, or stop it first"
                )
            states[name] = held.enter_context(state)
        adversary = states[ADVERSARY]
        if adversary.results not in (None, folder.absolute()):
            adversary.keep(folder)  # the folder was moved
        yield states


def _recall(folder: Path, states: dict[str, StateDir]) -> SavedGame:
    """Return how the game stood, and who had joined it; BadSpec where it cannot go on."""
    path = register_of(folder)
    if not path.exists():
        if any(state.past_run for state in states.values()):
            raise _lost(folder, COORDINATOR)
        return SavedGame()
    with RegisterDb.reopen(path) as archive:
        memory, run = archive.recall(), archive.born.run
    # everyone has written down which game it plays before that begins
    playing = (entry.name for entry in memory.members if not entry.lost)
    for name in (COORDINATOR, *playing) if memory.phase != "gathering" else ():
        if name not in states or states[name].past_run != run:
            raise _lost(folder, name)
    if memory.failure:
        raise BadSpec(
            f"{folder} has failed and cannot go on: {memory.failure}; mend that and play `slaternet run {folder}`"
        )
    return memory


def _lost(folder: Path, name: str) -> BadSpec:
    return BadSpec(
        f"{folder} cannot be resumed, because {states_of(folder) / name} is not what {name} kept there; put that back, "
        f"or play `slaternet run {folder}`"
    )


def _check_end(folder: Path, spec: Spec, memory: SavedGame, rounds: int) -> None:
    """Refuse a last round that lies before what was played."""
    if memory.phase == "over":
        played = memory.settled or spec.run.rounds or 0
        if rounds <= played:
            raise BadSpec(f"{folder} has played {played} rounds, so --rounds {rounds} is no more; name a larger number")
    elif rounds < memory.published:
        raise BadSpec(
            f"{folder} may have come to round {memory.published}, so it cannot end with --rounds {rounds}; name at "
            "least that, or resume it without"
        )


def _is_over(folder: Path, memory: SavedGame) -> bool:
    """Say whether all is played; BadSpec where nothing at all is left to be done."""
    if memory.phase != "over":
        return False
    if all((folder / f"{name}.png").exists() for name, _ in FIGURES):
        raise BadSpec(f"{folder} is finished; `slaternet resume {folder} --rounds N` plays it on")
    return True
