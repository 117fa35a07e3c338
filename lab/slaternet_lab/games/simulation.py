"""`slaternet simulate`: the three engines in one process, by direct calls; same digest as over the network."""

import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from slaternet import model
from slaternet.errors import BadSpec, PluginFailed, Refused, SlaternetError
from slaternet.limits import LIMITS
from slaternet.spec import Spec
from slaternet.spec.author_frames import broken
from slaternet.spec.plugins import plugin_edge
from slaternet_adversary.api import Adversary
from slaternet_adversary.engine.events import Asked, Play, Score, Used
from slaternet_adversary.plugin.makers import is_built_in, open_plugin
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.build import build_referee
from slaternet_adversary.shell.findings import observed
from slaternet_adversary.shell.run_folder import RunFolder, claim, new_folder
from slaternet_adversary.shell.runtime import Runtime, completed
from slaternet_agent.algorithms import Algorithm
from slaternet_agent.engine.events import Ask, Effect, Event, Finish, ReportRound
from slaternet_agent.engine.host import Host
from slaternet_agent.shell.build import build_algorithm, build_copies
from slaternet_coordinator.engine import events as coordinator
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.registry import build as build_graph
from slaternet_lab.games.finish import finish
from slaternet_lab.games.progress import Watcher
from slaternet_lab.runs import row_bytes
from slaternet_lab.runs.row_bytes import CountedCode
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import exchanged, load, resolve

HOST, ADVERSARY = "simulation", "adversary"
_BEAT = 1.0
"""Seconds between two looks at a game."""


def simulate(
    spec: Spec | str | None = None,
    *,
    adversary: type[Adversary] | str | None = None,
    options: Mapping[str, object] | None = None,
    algorithm: type[Algorithm] | str | None = None,
    out: Path | None = None,
    force: bool = False,
    progress: Watcher | None = None,
    figures: bool = True,
    finished: bool = True,
) -> Run:
    """Play a resolved spec, or one that `load` finds, in this process and return its run folder.

        simulate("paper-short", adversary=Mine, options={"budget": 2.0})

    Another `adversary` or `algorithm` than the spec's is a class, also one of a notebook's cell or of a script, or a
    target such as "mine.py:Mine". A class of a file is played as the file is saved. Without `finished`, the run folder
    gets its figures and assumptions.txt by a later call of `finish`.
    """
    if not isinstance(spec, Spec):
        spec = load(spec)
    if (exchange := exchanged(spec, adversary, options, algorithm)) is not spec:
        spec = resolve(exchange, Path.cwd())
    if spec.run.rounds is None:
        raise BadSpec("run.rounds is missing and a simulation hears no stop; say --set run.rounds=1000")
    folder = out or new_folder(spec)
    claim(folder, force=force)
    game = Simulation(spec, folder, progress.update if progress else None)
    try:
        with _watched(game, progress) if progress else nullcontext():
            game.play()
    finally:
        game.close()
    return finish(folder, figures=figures) if finished else Run.open(folder)


@contextmanager
def _watched(game: "Simulation", watcher: Watcher) -> Iterator[None]:
    """Tell a watcher every second where a game stands, however slow its rounds are."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_BEAT):
            watcher.update(*game.standing)

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Calls(PluginCalls):
    """Calls of the plugin in this process; another thread may ask which of them has begun."""

    fixing = scoring = 0
    """The round for which this is being done; 0: for none."""

    async def play(self, effects: Sequence[Play]) -> None:
        """Have the functions of rounds fixed."""
        for effect in effects:
            self.fixing = effect.round
            self._rounds.play(effect)
        self.fixing = 0

    async def score(self, effects: Sequence[Score]) -> list[Scored]:
        """Do a piece of scoring the first of some rounds."""
        self.scoring = effects[0].round
        scored = self._rounds.score(effects[0])
        self.scoring = 0
        return [] if scored is None else [scored]


class Simulation:
    """One host that seats everyone, the adversary and the coordinator, passing events to each other."""

    def __init__(self, spec: Spec, folder: Path, watch: Callable[[int, float, float], None] | None = None) -> None:
        self._spec = spec
        self._watch = watch or (lambda *progress: None)
        graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
        self._rounds = spec.run.rounds or 0
        rules = Rules(
            agents=spec.run.agents,
            hosts=1,
            rounds=spec.run.rounds,
            departures=spec.leaving,
            remembers=spec.gossip.remembers,
        )
        self._coordinator = Coordinator(graph, rules, bytes(32))
        self._host: Host | None = None
        self._counted: CountedCode | None = None
        self._folder = folder
        self._todo: deque[Effect | coordinator.Effect | model.Answer] = deque()
        self._over = False
        with ExitStack() as opening:
            plugin, self._description = opening.enter_context(open_plugin(spec))
            referee = build_referee(spec, self._description)  # refuses what is not resolved, before files are open
            results = RunFolder(folder, spec, run=uuid.uuid4().hex, rows_at_once=LIMITS.burst)
            self._calls = _Calls(OpenRounds(plugin))
            functions: PluginCalls = self._calls
            if not is_built_in(spec.adversary.plugin):
                functions = observed(functions, plugin, results)
            self._adversary = Runtime(functions, referee, results)
            self._adversary.audience = self
            self._plugin = opening.pop_all()

    def play(self) -> None:
        """Play to the end."""
        self._come(ADVERSARY, model.Role.ADVERSARY)
        self._tell(coordinator.Said(ADVERSARY, self._description))
        self._come(HOST, model.Role.HOST)
        while not self._over:
            # everyone plays until they wait for functions that are not fixed yet; then a burst of work is due
            while self._todo:
                self._execute(self._todo.popleft())
            while not self._adversary.idle:
                completed(self._adversary.work())
        if self._counted is not None:
            row_bytes.write(self._counted.rounds, self._folder)

    @property
    def standing(self) -> tuple[int, float, float, str]:
        """The last round that is scored, the totals so far, and what is done now; for another thread."""
        scored, fixing, scoring = self._adversary.progress, self._calls.fixing, self._calls.scoring
        if fixing or scoring:
            doing = f"fixing functions of round {fixing}" if fixing else f"scoring round {scoring}"
        else:
            # a host that is done stands one round further, while a plugin may still be looked at
            doing = f"playing round {min(self._host.round, self._rounds)}" if self._host else ""
        return scored.round, scored.cumulative_loss, scored.cumulative_violation, doing

    def close(self) -> None:
        """Close the run folder, and end the plugin."""
        self._adversary.close()
        self._plugin.__exit__(*sys.exc_info())  # to an error it may add how the plugin's process has ended

    def _come(self, name: str, role: model.Role) -> None:
        for effect in self._coordinator.handle(coordinator.Joined(name, model.Join(role, "", 0, model.PROTOCOL, ""))):
            if isinstance(effect, coordinator.Admit):
                self._tell(coordinator.Opened(name, model.Opening(effect.incarnation, effect.ticket)))

    def _tell(self, event: coordinator.Event) -> None:
        self._todo.extend(self._coordinator.handle(event))

    def _execute(self, effect: Effect | coordinator.Effect | model.Answer) -> None:
        match effect:
            case Ask(question):
                self._ask(question)
            case model.Answer():
                self._decide(effect)
            case ReportRound(round):
                self._tell(coordinator.Said(HOST, model.Progress(round)))
            case coordinator.Tell(_, body):
                self._hear(body)
            case Finish():
                completed(self._adversary.handle(Used(HOST, 1, model.Usage(self._player.round - 1))))

    def reply(self, host: str, answer: model.Answer) -> None:
        """Queue the answer for the host behind the events that came before it."""
        self._todo.append(answer)

    def refuse(self, host: str, error: SlaternetError) -> None:
        """Raise why a question is refused."""
        raise error

    def report(self, progress: model.Progress) -> None:
        """Tell coordinator and watcher how far the game is scored."""
        self._tell(coordinator.Said(ADVERSARY, progress))
        self._watch(progress.round, progress.cumulative_loss, progress.cumulative_violation)

    def finish(self, progress: model.Progress) -> None:
        """End the game: the summary is written."""
        self._over = True
        self._watch(progress.round, progress.cumulative_loss, progress.cumulative_violation)

    @property
    def _player(self) -> Host:
        if self._host is None:
            raise AssertionError("a host plays only after it is seated")
        return self._host

    def _ask(self, question: model.Question) -> None:
        try:
            completed(self._adversary.handle(Asked(HOST, question)))
        except Refused as error:
            what, remedy = f"broke the rules: {error}", "`slaternet algorithm-check` examines it"
            fault = broken(self._algorithm, "decide", question.round, question.agents, what, remedy)
            raise PluginFailed.by(f"algorithm {self._spec.algorithm.name}", fault) from error

    def _decide(self, event: Event) -> None:
        player = self._player
        with plugin_edge(
            "algorithm", self._spec.algorithm.name, "", lambda: player.round, self._seats, of=self._algorithm
        ):
            self._todo.extend(player.handle(event))

    def _hear(self, body: object) -> None:
        match body:
            case model.Seating(seats) if len(seats):
                self._algorithm = algorithm = build_algorithm(self._spec, self._description)
                self._seats = seats
                copies = build_copies(self._spec, self._description, algorithm)
                if copies is not None:
                    copies.code = self._counted = CountedCode(copies.code)
                with plugin_edge("algorithm", self._spec.algorithm.name, "start", agents=seats, of=algorithm):
                    self._host = Host(algorithm, body, self._spec.run.agents, self._spec.run.rounds, copies=copies)
                completed(self._adversary.seat(1, [(HOST, seats)], body.departures))
            case model.Topology():
                self._decide(body)
            case model.LowWater():
                completed(self._adversary.handle(body))
            case model.GameOver() if self._coordinator.cause is not None:  # the graph has failed
                raise self._coordinator.cause
