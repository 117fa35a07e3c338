"""The exam: every built-in algorithm passes it, and every kind of breach is found and named."""

from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array
from slaternet.numerics.sets import Box
from slaternet.spec import AlgorithmSection
from slaternet_agent.algorithms import Algorithm, AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.registry import build
from slaternet_agent.testing.arena import Arena
from slaternet_agent.testing.exam import CHECKS, examine

BUILT_IN = sorted(entry.name for entry in entry_points(group="slaternet.algorithms"))
CENTRALISED = ["agarwal2010", "agarwal2010-multi", "cao2019", "flaxman2005", "mahdavi2012", "mahdavi2012-bandit"]

USERS = '''
from dataclasses import dataclass

import numpy as np

from slaternet_agent.algorithms import Decision, Feedback


@dataclass(frozen=True)
class State:
    agents: np.ndarray
    z: np.ndarray


class Mine:
    """Mix, then follow the gradient of the loss with a step of rate/t."""

    feedback = Feedback(loss_gradient=True)

    def __init__(self, game, schedule, *, rate=0.5):
        self.width, self.set, self.rate = game.dimension, game.set, rate

    def start(self, agents):
        return State(agents, np.tile(self.set.centre, (len(agents), 1)))

    def outgoing(self, state, t):
        return state.z

    def decide(self, state, gossip, t):
        return Decision(gossip.mixed, np.empty((len(state.agents), 0, self.width)))

    def update(self, state, decision, seen, t):
        return State(state.agents, self.set.project(decision.x - self.rate / t * seen.loss.gradient))
'''


@dataclass(frozen=True, slots=True)
class State:
    agents: Agents
    z: Array


class Good(Algorithm):
    """Keeps the contract; the others break it in one place."""

    feedback = Feedback(points=1, loss_gradient=True)

    def __init__(self, game: AlgorithmGame) -> None:
        self.width, self.set = game.dimension, game.set

    def start(self, agents: Agents) -> Any:
        return State(agents, np.tile(self.set.centre, (len(agents), 1)))

    def outgoing(self, state: Any, t: int) -> Array:
        z: Array = state.z
        return z

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        return Decision(gossip.mixed, gossip.mixed[:, None])

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        assert seen.loss is not None
        return State(state.agents, self.set.project(decision.x - 0.3 * seen.loss.gradient))


class Counts(Good):
    calls = 0

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        self.calls += 1
        return super().update(state, replace(decision, x=decision.x / self.calls), seen, t)


class Overwrites(Good):
    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        state.z[:] = decision.x
        return state


class Averages(Good):
    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        return super().update(state, replace(decision, x=decision.x - 0.1 * decision.x.mean(axis=0)), seen, t)


class Leaves(Good):
    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        return Decision(gossip.mixed, gossip.mixed[:, None] + 3.0 * t)


class Hides(Good):
    """Remembers the last gradient on self, the same however often it is asked."""

    last: float | Array = 0.0

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        return Decision(self.set.project(gossip.mixed - 0.1 * self.last), gossip.mixed[:, None])

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        assert seen.loss is not None
        self.last = seen.loss.gradient
        return super().update(state, decision, seen, t)


class Peeks(Good):
    """Lets decide tell update something that no journal holds."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        self.heard = 0.5 * gossip.mixed
        return Decision(gossip.mixed, gossip.mixed[:, None])

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        return super().update(state, replace(decision, x=self.heard), seen, t)


class Misshapes(Good):
    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        return Decision(gossip.mixed, np.stack([gossip.mixed, gossip.mixed], axis=1))


class Narrow(Good):
    def outgoing(self, state: Any, t: int) -> Array:
        z: Array = state.z[:, 1:]
        return z


class Single(Good):
    def outgoing(self, state: Any, t: int) -> Array:
        return state.z.astype(np.float32)  # type: ignore[no-any-return]


class Explodes(Good):
    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        return State(state.agents, np.full_like(decision.x, np.nan))


class Raises(Good):
    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        return {}["nothing"]


class Loose(Good):
    def start(self, agents: Agents) -> Any:
        return {"agents": agents}


class Keeps(Good):
    """What Peeks should do: the memo tells update what decide has heard."""

    def __init__(self, game: AlgorithmGame) -> None:
        super().__init__(game)
        self.memo_width = game.dimension

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        return Decision(gossip.mixed, gossip.mixed[:, None], memo=0.5 * gossip.mixed)

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:
        return super().update(state, replace(decision, x=decision.memo), seen, t)


class Conceals(Keeps):
    memo_width = 0

    def __init__(self, game: AlgorithmGame) -> None:
        Good.__init__(self, game)


class Skimps(Keeps):
    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        decision = super().decide(state, gossip, t)
        return replace(decision, memo=decision.memo[:, 1:])


class Overflows(Keeps):
    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        decision = super().decide(state, gossip, t)
        return replace(decision, memo=np.full_like(decision.memo, np.inf))


class Blends(Keeps):
    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        decision = super().decide(state, gossip, t)
        return replace(decision, memo=decision.memo + len(decision.memo))


class Loops(Good):
    """Reads what its neighbours send: itself among five on a complete graph, among fewer elsewhere."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        x = gossip.sum(gossip.weights[:, None] * gossip.rows)
        return Decision(x, x[:, None])


class Assumes(Good):
    """Takes it that everybody hears everybody."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        x = np.add.reduce(gossip.rows.reshape(len(state.agents), 5, -1).transpose(0, 2, 1).copy(), axis=-1) / 5.0
        return Decision(x, x[:, None])


class Gathers(Good):
    """Reads the rows of all, which only a complete graph has."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        x = np.tile(np.add.reduce(gossip.received.T.copy(), axis=-1) / 5.0, (len(state.agents), 1))
        return Decision(x, x[:, None])


class Repairs(Good):
    """Writes into the weights it is given."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:
        weights = gossip.weights
        weights *= 0.5
        return super().decide(state, gossip, t)


BREACHES = [
    (Conceals, "rebuilds", "update of round 1 raised "),
    (Skimps, "shapes", "decide returns a memo in round 1 of shape (5, 12), not (5, 13); return (k, w)"),
    (Overflows, "finite", "decide returns a memo in round 1 that is not finite; keep its steps bounded"),
    (Blends, "rowwise", "decide of round 1 differs where 1 of the 5 agents are computed together"),
    (Assumes, "plays", "cannot reshape array of size 221 into shape (5,5,newaxis)"),
    (Repairs, "pure", "decide of round 1 writes into an array it is given or has given away"),
    (
        Counts,
        "pure",
        "gives other bits when it is called again; let it depend on its arguments alone",
    ),
    (Overwrites, "pure", "update of round 1 writes into an array it is given or has given away; make a new one"),
    (Averages, "rowwise", "differs where 1 of the 5 agents are computed together; let no row enter another"),
    (Leaves, "inside", "decide returns points in round 2 outside the box; project onto (1 - xi) X"),
    (
        Hides,
        "restores",
        "is another after a new instance took the state over; keep all memory in the state",
    ),
    (Peeks, "rebuilds", "update of round 1 raised AttributeError: 'Peeks' object has no attribute 'heard', at "),
    (Misshapes, "shapes", "decide returns points in round 1 of shape (5, 2, 13), not (5, 1, 13); return (k, s, p)"),
    (Narrow, "shapes", "outgoing returns rows in round 1 of shape (5, 12), not (5, 13); return (k, width)"),
    (Single, "shapes", "outgoing returns rows in round 1 as float32; return a float64 array (k, width)"),
    (Explodes, "finite", "outgoing returns rows in round 2 that are not finite; keep its steps bounded"),
    (Raises, "plays", "update of round 1 raised KeyError: 'nothing', at "),
    (Loose, "state", "the algorithm has a state that is no dataclass; make it one of float64 arrays and `agents`"),
]


def errors(target: Any) -> dict[str, str]:
    return {each.about: each.text for each in examine(target) if each.verdict == "error"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_algorithm_passes(name: str) -> None:
    assert errors(AlgorithmSection(name=name)) == {}


@pytest.mark.parametrize("name", ["cao2019", "mahdavi2012", "zhang2024"])
def test_one_learner_for_all_passes(name: str) -> None:
    assert errors(AlgorithmSection(name=name, mode="central")) == {}


@pytest.mark.parametrize("kind", [Keeps, Loops, Gathers])
def test_memos_neighbours_and_the_rows_of_all_may_be_used(kind: type[Good]) -> None:
    assert errors(kind) == {}


def test_a_fault_on_a_sparse_graph_alone_says_so() -> None:
    assert errors(Assumes)["plays"].endswith("(where an agent hears only some of the others)")


def test_every_check_is_reported_of_an_algorithm_that_keeps_the_contract() -> None:
    report = examine(Good)

    assert [each.about for each in report] == list(CHECKS)
    assert {each.verdict for each in report} == {"ok"}


@pytest.mark.parametrize(("kind", "about", "sentence"), BREACHES, ids=lambda each: getattr(each, "__name__", ""))
def test_each_breach_is_found_and_named(kind: type[Good], about: str, sentence: str) -> None:
    found = errors(kind)

    assert sentence in found[about]
    assert "\n" not in found[about]


def test_what_a_breach_leaves_open_is_called_untested() -> None:
    verdicts = {each.about: each.verdict for each in examine(Misshapes)}

    assert verdicts["shapes"] == "error"
    assert verdicts["rowwise"] == "untested"


def test_a_short_algorithm_in_a_user_s_file_passes(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USERS)

    assert errors(AlgorithmSection.model_validate({"name": f"{file}:Mine", "rate": 0.25})) == {}


def test_numbers_that_are_missing_are_the_spec_s_fault() -> None:
    with pytest.raises(BadSpec, match=r"^algorithm\.gamma0 is missing"):
        examine(AlgorithmSection(name="zhang2024", schedule="theorem1"))


@pytest.mark.parametrize("name", CENTRALISED)
def test_one_learner_for_a_single_agent_decides_as_that_agent_alone(name: str) -> None:
    game = AlgorithmGame(1, 13, 2, 20, 1, Box(13, -3.0, 4.0))
    played = []
    for mode in ("local", "central"):
        host = build(AlgorithmSection(name=name, mode=mode), game)  # type: ignore[arg-type]
        arena, state, decisions = Arena("box", game, silent=True), host.start(np.arange(1)), []
        for t in range(1, 15):
            decision = host.decide(state, arena.gossip(host.outgoing(state, t)), t)
            state = host.update(state, decision, arena.values(decision, host.feedback, t), t)
            decisions.append(decision.x.tobytes() + decision.points.tobytes())
        played.append(decisions)

    assert played[0] == played[1]
