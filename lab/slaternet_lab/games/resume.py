"""`slaternet resume`: continue a run that was interrupted, and with another last round also one that is finished.

Another last round changes the spec, and with it the hash by which every process knows its game. The rounds that were
played stay as they are: hosts go on from the low-water mark M as after a crash. `Manifest.write` decides: until it
returns the old game stands, from then on the longer one. The steps that follow can be repeated; the next `resume`
completes them. The coordinator's spec is written last and marks the end.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import COORDINATOR, StopAt
from slaternet.spec import CHANGEABLE, Spec
from slaternet.spec.overrides import override
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.disk import refuse_link
from slaternet.storage.files import read_spec
from slaternet.storage.state_dir import StateDir
from slaternet.tickets import spec_tag
from slaternet_adversary.journal.journal import JOURNAL, AdversaryJournal, begun, survey
from slaternet_adversary.plugin.data import with_data
from slaternet_adversary.shell.run_folder import remove_conclusions
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.shell.register_db import RegisterDb
from slaternet_lab.games.finish import finish
from slaternet_lab.games.fork_server import ForkServer
from slaternet_lab.games.manifest import ADVERSARY, Manifest, register_of, spec_of, states_of, write_spec
from slaternet_lab.games.prints import prints_shown
from slaternet_lab.games.processes import PARTING_SECONDS, Supervisor
from slaternet_lab.games.progress import Watcher
from slaternet_lab.runs.plots import FIGURES
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import resolve

_LOOK_SECONDS = 0.05


def resume(
    folder: str | Path,
    *,
    rounds: int | None = None,
    settings: Sequence[str] = (),
    progress: Watcher | None = None,
    figures: bool = True,
    restart: bool = True,
    plugin_patience: float = LIMITS.plugin_patience,
) -> Run:
    """Continue a run that `play` began and that was interrupted; return its run folder.

    Hosts that were given up stay so: the game goes on without them.

    `rounds` is another last round, also for a finished run, which then reaches the digest of a run that was begun with
    so many rounds. `settings` change limits of the plugin: ["adversary.seconds=120"].
    """
    resumption = prepare(folder, rounds=rounds, settings=settings)
    return resumption.play(progress, figures=figures, restart=restart, plugin_patience=plugin_patience)


@dataclass(frozen=True)
class Resumption:
    """A run that can continue."""

    folder: Path
    manifest: Manifest
    spec: Spec
    """With all agents that the run began with, also those it has lost."""
    lost: frozenset[str]
    """The hosts that were given up."""
    over: bool
    """Whether only the figures are missing."""

    def play(
        self,
        progress: Watcher | None = None,
        *,
        figures: bool = True,
        finished: bool = True,
        restart: bool = True,
        plugin_patience: float = LIMITS.plugin_patience,
        server: ForkServer | None = None,
    ) -> Run:
        """Play to the end, as `slaternet_lab.play` does."""
        if not self.over:
            with prints_shown(self.folder, self.spec.adversary.plugin, progress) as watcher:
                Supervisor(
                    folder=self.folder,
                    manifest=self.manifest,
                    progress=watcher,
                    restart=restart,
                    again=True,
                    without=self.lost,
                    plugin_patience=plugin_patience,
                    server=server,
                ).run()
        return finish(self.folder, figures=figures) if finished else Run.open(self.folder)


def prepare(
    folder: str | Path,
    *,
    rounds: int | None = None,
    settings: Sequence[str] = (),
    patience: float = PARTING_SECONDS,
) -> Resumption:
    """Read the state of a run and make it ready to continue, in one step or not at all.

    BadSpec where it cannot continue, Diverged where the adversary's journal lacks rounds that others rely on.

    Processes that still run have `patience` seconds to end: they end when their parent has died.
    """
    folder = Path(folder)
    for part in (states_of(folder), folder / JOURNAL.parent):
        refuse_link(part)
    manifest = _manifest_of(folder)
    spec = _limited(_spec_of(folder), settings)
    with _claim_states(folder, manifest, time.monotonic() + patience) as states:
        game = _saved_game(folder, states)
        if begun(folder):
            survey(folder, least=game.low_water)  # Diverged where it lacks rounds: nothing is written then
        if spec.run.rounds != manifest.rounds:  # an earlier call was interrupted
            spec = extend(folder, manifest, states, spec)
            game = _saved_game(folder, states)
        if rounds is not None:
            _check_extension(folder, spec, game, rounds)
            mark, hosts = _restarting(folder, states)
            for state in hosts:
                _checkpoints(state, state.past_spec).read(mark)  # BadSpec where it is missing or damaged
            manifest = manifest.model_copy(update={"rounds": rounds})
            manifest.write(folder)
            spec = extend(folder, manifest, states, spec)
        if settings:
            write_spec(folder, spec)
        lost = frozenset(member.name for member in game.members if member.lost)
        return Resumption(folder, manifest, spec, lost, rounds is None and _is_over(folder, game))


def extend(folder: Path, manifest: Manifest, states: Mapping[str, StateDir], spec: Spec) -> Spec:
    """Apply the manifest's last round to everything stored, whatever an earlier attempt has done; return the new spec.

    `states` are those of all processes, none of which runs.
    """
    longer = spec.replace(**{"run.rounds": manifest.rounds})
    if longer == spec:
        return spec
    digest, coordinator = longer.digest(), states[COORDINATOR]
    tag = _tag(folder, digest)
    remove_conclusions(folder)
    if register_of(folder).exists() and begun(folder):
        journal = AdversaryJournal.open(folder, coordinator.past_run, durability=manifest.durability, again=True)
        with closing(journal):
            for _ in journal.replay():
                pass
            journal.append(StopAt(longer.run.rounds or 0))  # a second one of the same round changes nothing
    mark, hosts = _restarting(folder, states)
    for state in hosts:
        if state.past_spec != tag:
            _rename_checkpoint(state, mark, tag)
    for state in states.values():
        if state is not coordinator:
            state.play_on(tag)
    if register_of(folder).exists():
        with RegisterDb.open(register_of(folder)) as register:
            register.play_on(digest)
    coordinator.play_on(digest)
    write_spec(folder, longer)
    return longer


def _limited(spec: Spec, settings: Sequence[str]) -> Spec:
    """Return the spec with other limits of its plugin; BadSpec for any other key."""
    for key in (each.partition("=")[0].strip() for each in settings):
        if key not in CHANGEABLE:
            raise BadSpec(
                f"--set {key} cannot change a game that is under way; resume takes {' and '.join(CHANGEABLE)} alone"
            )
    return Spec.load(override(spec.tables(), settings), source="--set") if settings else spec


def _tag(folder: Path, digest: str) -> str:
    """Return the tag by which the processes of a run know a spec; empty where none has joined."""
    if not register_of(folder).exists():
        return ""
    with RegisterDb.open(register_of(folder)) as register:
        return spec_tag(register.identity.secret, digest)


def _restarting(folder: Path, states: Mapping[str, StateDir]) -> tuple[int, list[StateDir]]:
    """Return M, and the states of the hosts that go on from it: not those given up, or whose agents have all left."""
    if not register_of(folder).exists():
        return 0, []
    with RegisterDb.open(register_of(folder)) as register:
        game = register.read()
    mark = game.low_water
    attendance = Attendance(sum(member.seats.size for member in game.members), game.departures)
    playing = (each for each in game.members if not each.lost and attendance.of(each.seats, mark + 1).size)
    return mark, [states[member.name] for member in playing] if mark else []


def _checkpoints(state: StateDir, spec: str) -> Checkpoints:
    assert state.checkpoints is not None  # every process of a run has a state folder
    return Checkpoints(state.checkpoints, state.name, state.past_run, spec)


def _rename_checkpoint(state: StateDir, mark: int, spec: str) -> None:
    """Write the checkpoint at M, from which a host goes on, as one of the new spec."""
    after = _checkpoints(state, spec)
    try:
        after.read(mark)
    except BadSpec:  # it is still the old one
        after.write(mark, _checkpoints(state, state.past_spec).read(mark))


def _manifest_of(folder: Path) -> Manifest:
    refusal = BadSpec(f"{folder} is not a run folder; name a folder that `slaternet run` has written")
    if not folder.is_dir():
        raise refusal
    if (manifest := Manifest.read(folder)) is not None:
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
    raise refusal


def _spec_of(folder: Path) -> Spec:
    if not spec_of(folder).exists():
        raise _lost(folder, COORDINATOR)
    return read_spec(spec_of(folder))


@contextmanager
def _claim_states(folder: Path, manifest: Manifest, deadline: float) -> Iterator[dict[str, StateDir]]:
    """Hold the states of all processes, so that none of them can run meanwhile."""
    with ExitStack() as held:
        states: dict[str, StateDir] = {}
        for name, role in manifest.roles.items():
            while (state := StateDir.claim_idle(states_of(folder), name, role=role)) is None:
                if time.monotonic() < deadline:
                    time.sleep(_LOOK_SECONDS)  # no system reports a free lock without taking it
                    continue
                raise BadSpec(
                    f"{folder} is being played, because {name} is running; wait for its end, or stop it first"
                )
            states[name] = held.enter_context(state)
        adversary = states[ADVERSARY]
        if adversary.results not in (None, folder.absolute()):
            adversary.keep(folder)  # the folder was moved
        yield states


def _saved_game(folder: Path, states: Mapping[str, StateDir]) -> SavedGame:
    """Return how far the game was, and which processes had joined it; BadSpec where it cannot continue."""
    path = register_of(folder)
    if not path.exists():
        if any(state.past_run for state in states.values()):
            raise _lost(folder, COORDINATOR)
        return SavedGame()
    with RegisterDb.open(path) as register:
        game, run = register.read(), register.identity.run
    # every process has stored which game it plays before the game begins
    playing = (member.name for member in game.members if not member.lost)
    for name in (COORDINATOR, *playing) if game.phase != "gathering" else ():
        if name not in states or states[name].past_run != run:
            raise _lost(folder, name)
    if game.phase != "gathering" and not begun(folder):
        raise BadSpec(f"{folder} cannot be resumed without {folder / JOURNAL}; put that back, or play the game anew")
    if game.failure:
        raise BadSpec(
            f"{folder} has failed and cannot go on: {game.failure}; mend that and play `slaternet run {folder}`"
        )
    return game


def _lost(folder: Path, name: str) -> BadSpec:
    return BadSpec(
        f"{folder} cannot be resumed, because {states_of(folder) / name} is not what {name} kept there; put that back, "
        f"or play `slaternet run {folder}`"
    )


def _check_extension(folder: Path, spec: Spec, game: SavedGame, rounds: int) -> None:
    """Refuse a last round before what was played, for a game that depends on it, or one that could not be played."""
    if game.phase == "over":
        played = game.settled or spec.run.rounds or 0
        if rounds <= played:
            raise BadSpec(f"{folder} has played {played} rounds, so --rounds {rounds} is no more; name a larger number")
    elif rounds < game.published:
        raise BadSpec(
            f"{folder} may have come to round {game.published}, so it cannot end with --rounds {rounds}; name at "
            "least that, or resume it without"
        )
    refused = f"{folder} cannot be given another last round"
    if spec.algorithm.horizon is not None:
        raise BadSpec(
            f"{refused}: {spec.algorithm.name} with schedule {spec.algorithm.schedule} depends on it; play "
            f"`slaternet run {folder} --set run.rounds={rounds}`"
        )
    # the plugin may have been changed within the game: it was last played with the code that the run folder names
    longer = spec.replace(**{"run.rounds": rounds, "adversary.sha256": _played_code(folder, spec)})
    if (found := resolve(longer, folder)) == longer:
        return
    names = {"algorithm": longer.algorithm.name, "graph": longer.graph.name, "adversary": with_data(longer)}
    changed = [name for section, name in names.items() if getattr(found, section) != getattr(longer, section)]
    raise BadSpec(
        f"{refused}: the code that {spec_of(folder)} names is not the one it was played with; put that back: "
        f"{' and '.join(changed or names.values())}"
    )


def _played_code(folder: Path, spec: Spec) -> str:
    recorded = folder / "spec.toml"
    return (read_spec(recorded) if recorded.exists() else spec).adversary.sha256


def _is_over(folder: Path, game: SavedGame) -> bool:
    """Return whether all rounds are played; BadSpec where the figures are there too and nothing is left to do."""
    if game.phase != "over":
        return False
    if all((folder / f"{name}.png").exists() for name, _ in FIGURES):
        raise BadSpec(f"{folder} is finished; `slaternet resume {folder} --rounds N` plays it on")
    return True
