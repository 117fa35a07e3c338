import gc
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import (
    PROTOCOL,
    Answer,
    Array,
    Finished,
    Frame,
    GameOver,
    Holding,
    Join,
    LowWater,
    Opening,
    Progress,
    Role,
    Seating,
    StopAt,
    Usage,
)
from slaternet.numerics.randomness import block_length, stream
from slaternet.spec import Spec
from slaternet_adversary import Game
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.engine.events import Asked, Used
from slaternet_adversary.engine.ledger import Page
from slaternet_adversary.plugin.makers import open_plugin
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.shell.build import build_referee
from slaternet_adversary.shell.run_folder import RunFolder, claim
from slaternet_adversary.shell.runtime import Runtime, completed
from slaternet_agent.engine.events import Ask, Effect, Finish, FrameArrived, ReportRound, Send
from slaternet_agent.engine.host import Host
from slaternet_agent.shell.build import build_algorithm
from slaternet_coordinator.engine import events as coordinator
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.registry import build as build_graph
from slaternet_lab.games.simulation import Simulation, simulate

N, P, T, SEED = 12, 4, 30, 11

SPEC = Spec.parse(
    f"""
[run]
name = "little"
agents = {N}
rounds = {T}
dimension = {P}
seed = {SEED}
[set]
kind = "box"
lower = -5.0
upper = 5.0
[algorithm]
name = "zhang2024"
schedule = "table2"
[feedback]
points = 2
[question]
points = 2
[graph]
name = "paper"
rho = 0.2
[adversary]
plugin = "linear-regression"
[adversary.options]
b = 1.0
[record]
decisions = true
""",
    source="test",
)


def simulated(spec: Spec, folder: Path) -> dict[str, Any]:
    claim(folder)
    game = Simulation(spec, folder)
    try:
        game.play()
    finally:
        game.close()
    return summary(folder)


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def recorded(folder: Path) -> Array:
    with np.load(folder / "decisions.npz") as archive:
        x: Array = archive["x"]
    return x


def reference() -> tuple[Array, float, float]:
    """Algorithm 1 with the numbers of Table II as the paper writes it: agent by agent, dense matrices, BLAS."""
    opponent = LinearRegression(Game(N, P, SEED, SPEC.feasible_set()), b=1.0)
    graph = build_graph(SPEC.graph, N, SEED)
    length = block_length(P)
    directions = [stream(SEED, "direction", i, 0).standard_normal((length, P)) for i in range(N)]
    z, x, loss, violation = np.zeros((N, P)), np.empty((T, N, P)), 0.0, 0.0
    for t in range(1, T + 1):
        f_t = opponent.play(t)
        alpha, gamma, delta, xi = 1 / t, 0.15 * t, 0.01 / t, 1 / (t + 1)
        x[t - 1] = graph.matrix(t).dense() @ z
        for i in range(N):
            u = directions[i][t - 1] / np.linalg.norm(directions[i][t - 1])
            here, there = x[t - 1, i], x[t - 1, i] + delta * u
            f = [0.5 * np.linalg.norm(f_t.a[i] @ v - f_t.theta[i]) ** 2 for v in (here, there)]
            g = [f_t.b[i] @ v - f_t.bound[i] for v in (here, there)]
            q = gamma * np.maximum(g[0], 0.0)
            omega = P / delta * (f[1] - f[0]) * u + P / delta * np.outer(u, g[1] - g[0]) @ q
            z[i] = np.clip(here - alpha * omega, -5 * (1 - xi), 5 * (1 - xi))
            loss += sum(0.5 * float(np.linalg.norm(f_t.a[j] @ here - f_t.theta[j])) ** 2 for j in range(N)) / N**2
            stacked = np.concatenate([f_t.b[j] @ here - f_t.bound[j] for j in range(N)])
            violation += float(np.linalg.norm(np.maximum(stacked, 0.0))) / N
    return x, loss, violation


def test_a_simulation_plays_the_paper_s_algorithm(tmp_path: Path) -> None:
    found = simulated(SPEC, tmp_path / "run")

    x, loss, violation = reference()
    assert np.abs(x).max() > 0.1  # they do move
    assert recorded(tmp_path / "run") == pytest.approx(x, rel=0, abs=1e-9)
    assert found["cumulative_loss"] == pytest.approx(loss, rel=1e-9)
    assert found["cumulative_violation"] == pytest.approx(violation, rel=1e-9)


def test_a_simulation_repeats_itself_to_the_bit_and_its_written_spec_does_too(tmp_path: Path) -> None:
    first = simulated(SPEC, tmp_path / "first")
    written = Spec.parse((tmp_path / "first" / "spec.toml").read_text(), source="again")
    second = simulated(written, tmp_path / "second")
    other = simulated(SPEC.replace(**{"run.seed": SEED + 1}), tmp_path / "other")

    assert first["digest"] == second["digest"] != other["digest"]
    assert recorded(tmp_path / "first").tobytes() == recorded(tmp_path / "second").tobytes()
    assert first["hosts"] == 1
    assert first["rounds"] == T


def test_a_simulation_longer_than_the_window_goes_on_and_keeps_little(tmp_path: Path) -> None:
    spec = SPEC.replace(**{"run.rounds": 6 * LIMITS.window, "run.agents": 3, "record.decisions": False})
    before = sum(isinstance(each, Page) for each in gc.get_objects())
    folder = tmp_path / "run"
    claim(folder)
    game = Simulation(spec, folder)
    game.play()
    game.close()

    kept = sum(isinstance(each, Page) for each in gc.get_objects()) - before
    assert summary(folder)["rounds"] == 6 * LIMITS.window
    assert kept <= 2 * LIMITS.window  # pages of rounds that nobody asks about any more are dropped


def test_a_simulation_needs_an_end(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"run\.rounds is missing and a simulation hears no stop"):
        simulate(SPEC.replace(**{"run.rounds": None}), out=tmp_path / "run")

    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("section", "what"), [("feedback", "granted"), ("question", "asked for")])
def test_a_spec_that_is_not_resolved_is_refused_before_anything_is_recorded(
    section: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSpec, match=rf"\[{section}\] is missing; a resolved spec says what is {what}"):
        simulate(SPEC.replace(**{section: None}), out=tmp_path / "run")

    assert list((tmp_path / "run").iterdir()) == []


# The engines of several hosts, wired together by direct calls


class World:
    """Coordinator, adversary and hosts; what is under way arrives in the order that a seed draws.

    Streams keep their order: what one process tells another arrives as it was said.
    """

    def __init__(self, spec: Spec, folder: Path, hosts: int, seed: int) -> None:
        self._spec = spec
        self._chance = random.Random(seed)
        claim(folder)
        with open_plugin(spec) as (plugin, self._description):  # in this process: nothing ends with the block
            pass
        functions, referee = PluginCalls(OpenRounds(plugin)), build_referee(spec, self._description)
        self.adversary = Runtime(functions, referee, RunFolder(folder, spec, run="id"))
        self.adversary.audience = self
        graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
        rules = Rules(agents=spec.run.agents, hosts=hosts, rounds=spec.run.rounds, departures=spec.leaving)
        self.coordinator = Coordinator(graph, rules, bytes(32))
        self.names = [f"host-{index}" for index in range(hosts)]
        self.hosts: dict[str, Host] = {}
        self._peers: dict[str, list[str]] = {}
        self._streams: dict[tuple[str, str], list[Any]] = {}

    def play(self, stop_after: int | None = None) -> None:
        self._come("adversary", Role.ADVERSARY)
        for name in self.names:
            self._come(name, Role.HOST)
        self._tell(coordinator.Said("adversary", self._description))
        self._deliver(("coordinator", "adversary"))  # a question before the seating would be refused, and asked again
        steps = 0
        while self._streams or not self.adversary.idle:
            steps += 1
            if steps == stop_after:
                self._tell(coordinator.StopAsked())
            choice = self._chance.randrange(len(self._streams) + (not self.adversary.idle))
            if choice == len(self._streams):
                completed(self.adversary.work())
            else:
                self._deliver(list(self._streams)[choice])

    def _come(self, name: str, role: Role) -> None:
        effects = self.coordinator.handle(coordinator.Joined(name, Join(role, "", 0, PROTOCOL, "")))
        (admit,) = (effect for effect in effects if isinstance(effect, coordinator.Admit))
        self._tell(coordinator.Opened(name, Opening(admit.incarnation, admit.ticket)))

    def _send(self, by: str, to: str, body: Any) -> None:
        self._streams.setdefault((by, to), []).append(body)

    def _deliver(self, stream: tuple[str, str]) -> None:
        body = self._streams[stream].pop(0)
        if not self._streams[stream]:
            del self._streams[stream]
        by, to = stream
        if to == "coordinator":
            self._tell(coordinator.Said(by, body))
        elif to == "adversary":
            self._reveal(body)
        else:
            self._hear(to, by, body)

    def _tell(self, event: coordinator.Event) -> None:
        for effect in self.coordinator.handle(event):
            if isinstance(effect, coordinator.Tell):
                self._send("coordinator", effect.name, effect.body)

    def _reveal(self, body: Any) -> None:
        match body:
            case Seating(peers=peers, departures=departures):
                completed(self.adversary.seat(1, [(peer.name, peer.seats) for peer in peers], departures))
            case Asked() | Used() | LowWater() | StopAt():
                completed(self.adversary.handle(body))

    def reply(self, host: str, answer: Answer) -> None:
        self._send("adversary", host, answer)

    def report(self, progress: Progress) -> None:
        self._send("adversary", "coordinator", progress)

    def finish(self, progress: Progress) -> None:
        self.report(progress)
        self._send("adversary", "coordinator", Finished())

    def _hear(self, name: str, by: str, body: Any) -> None:
        if isinstance(body, Seating):
            algorithm = build_algorithm(self._spec, self._description)
            self.hosts[name] = Host(algorithm, body, self._spec.run.agents, self._spec.run.rounds)
            self._peers[name] = [peer.name for peer in body.peers]
        elif name not in self.hosts:
            self._send(by, name, body)  # no stream is accepted before the seating
        elif isinstance(body, Frame):
            self._execute(name, self.hosts[name].handle(FrameArrived(self._peers[name].index(by), body)))
        elif not isinstance(body, GameOver):
            self._execute(name, self.hosts[name].handle(body))

    def _execute(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    self._send(name, self._peers[name][peer], frame)
                case Ask(question):
                    self._send(name, "adversary", Asked(name, question))
                case ReportRound(round):
                    self._send(name, "coordinator", Progress(round))
                case Holding():
                    self._send(name, "coordinator", effect)
                case Finish():
                    self._send(name, "adversary", Used(name, 1, Usage(self.hosts[name].round - 1)))
                    self._send(name, "coordinator", Finished())


@pytest.mark.parametrize(("hosts", "seed"), [(1, 0), (2, 1), (3, 2), (5, 3), (N, 4)])
def test_the_number_of_hosts_and_the_order_of_messages_do_not_matter(hosts: int, seed: int, tmp_path: Path) -> None:
    alone = simulated(SPEC, tmp_path / "alone")
    world = World(SPEC, tmp_path / "world", hosts, seed)

    world.play()

    assert world.coordinator.view.phase is Phase.OVER
    found = summary(tmp_path / "world")
    assert (found["digest"], found["hosts"]) == (alone["digest"], hosts)
    for key in ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation"):
        assert found[key] == alone[key]
    assert recorded(tmp_path / "world").tobytes() == recorded(tmp_path / "alone").tobytes()


@pytest.mark.parametrize(("hosts", "stop_after"), [(1, 40), (3, 60), (3, 700), (4, 2500)])
def test_a_game_without_end_that_is_stopped_is_the_simulation_of_what_it_wrote(
    hosts: int, stop_after: int, tmp_path: Path
) -> None:
    world = World(SPEC.replace(**{"run.rounds": None}), tmp_path / "world", hosts, seed=stop_after)

    world.play(stop_after)

    assert world.coordinator.view.phase is Phase.OVER
    found = summary(tmp_path / "world")
    written = Spec.parse((tmp_path / "world" / "spec.toml").read_text(), source="again")
    assert written.run.rounds == found["rounds"] == world.coordinator.view.last
    assert simulated(written, tmp_path / "again")["digest"] == found["digest"]


def test_games_longer_than_the_window_go_on_without_waiting_for_anyone(tmp_path: Path) -> None:
    spec = SPEC.replace(**{"run.rounds": 3 * LIMITS.window, "run.agents": 4, "record.decisions": False})
    world = World(spec, tmp_path / "world", hosts=3, seed=5)

    world.play()

    assert world.coordinator.view.phase is Phase.OVER
    assert summary(tmp_path / "world")["digest"] == simulated(spec, tmp_path / "alone")["digest"]


CHASER = """
import numpy as np
from slaternet_adversary import Adversary


class Bowls:
    def __init__(self, centre):
        self._centre = centre

    def loss(self, agents, points):
        away = points - self._centre
        return np.add.reduce(away * away, axis=-1)

    def constraint(self, agents, points):
        return points[..., :1] - 1.0


class Chaser(Adversary):
    constraints = 1
    history = 2
    rowwise = True

    def play(self, round, past):
        centre = past.decisions.mean(axis=(0, 1)) if len(past.decisions) else np.ones(self.game.dimension)
        return Bowls(0.5 - centre)
"""


def test_an_adversary_that_looks_at_the_past_sees_the_same_past_everywhere(tmp_path: Path) -> None:
    (tmp_path / "chaser.py").write_text(CHASER)
    chaser = {"plugin": f"{tmp_path / 'chaser.py'}:Chaser", "isolation": "none"}
    spec = SPEC.replace(**{"adversary": chaser, "run.rounds": 12})

    alone = simulated(spec, tmp_path / "alone")
    world = World(spec, tmp_path / "world", hosts=3, seed=8)
    world.play()

    assert summary(tmp_path / "world")["digest"] == alone["digest"]
    assert np.abs(np.diff(recorded(tmp_path / "alone"), axis=0)).max() > 1e-3
