"""From a spec to a plugin and a referee: gradients are granted only where the plugin has them."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.specs import small_spec

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Description, Question
from slaternet.spec import Spec
from slaternet_adversary import Adversary, CannotPlay
from slaternet_adversary.engine.events import Asked, Evaluate, Played
from slaternet_adversary.plugin.makers import limits_of, open_plugin
from slaternet_adversary.shell.build import build_referee

N, P = 3, 2
SPEC = small_spec(N, P, rounds=2)
PLUGINS = """
import numpy as np
from slaternet_adversary import Adversary, CannotPlay

class Values:
    def loss(self, agents, points):
        return points.sum(axis=-1)

    def constraint(self, agents, points):
        return points[..., :1]

class Slope(Values):
    def loss_gradient(self, agents, points):
        return np.ones(points.shape)

class Plain(Adversary):
    constraints = 1
    kind = Values
    log = []

    def play(self, round, past):
        type(self).log.append((id(self), round, past))
        return self.kind()

class Sloping(Plain):
    kind = Slope
    log = []

class Adaptive(Sloping):
    history = 2
    log = []

class Odd(Plain):
    def play(self, round, past):
        functions = Values()
        functions.loss_gradient = "steep"
        return functions

class Failing(Plain):
    def play(self, round, past):
        raise ArithmeticError("no functions today")

class Refusing(Plain):
    def play(self, round, past):
        raise CannotPlay("this adversary needs an even number of agents")
"""

GREEDY = """
import threading

import numpy as np
from slaternet_adversary import Adversary

class Values:
    loss = constraint = None

class Grabs(Adversary):
    constraints = 1

    def play(self, round, past):
        functions = Values()
        functions.kept = np.ones(1 << 27)
        functions.loss = functions.constraint = len
        return functions

class Hangs(Grabs):
    def play(self, round, past):
        threading.Event().wait()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plugins.py"
    path.write_text(PLUGINS)
    return path


def spec(plugin: str = "linear-regression", **granted: bool) -> Spec:
    asked = {"points": 2, **granted}
    return SPEC.replace(**{"adversary.plugin": plugin, "adversary.isolation": "none"}, feedback=asked, question=asked)


def new(spec: Spec) -> tuple[Adversary, Description]:
    with open_plugin(spec) as (plugin, description):
        return plugin, description


@pytest.mark.parametrize("loss", [False, True])
@pytest.mark.parametrize("constraint", [False, True])
def test_a_description_names_the_gradients_that_are_granted(loss: bool, constraint: bool) -> None:
    _, description = new(spec(loss_gradient=loss, constraint_gradient=constraint))

    assert (description.loss_gradient, description.constraint_gradient) == (loss, constraint)


def test_a_spec_that_does_not_say_what_is_granted_has_a_plugin_all_the_same() -> None:
    _, description = new(SPEC)

    assert not description.loss_gradient
    assert not description.constraint_gradient


def test_the_referee_grants_the_question_of_the_spec() -> None:
    granted = spec(loss_gradient=True).replace(feedback={"points": 7, "loss_gradient": True})
    referee = build_referee(granted, new(granted)[1])
    referee.seat([("a", np.arange(N))])
    referee.handle(Played(1))
    x, points = np.zeros((N, P)), np.zeros((N, 2, P))

    effect, *_ = referee.handle(Asked("a", Question(1, np.arange(N), x, points, anchor=x, loss_gradient=True)))

    assert isinstance(effect, Evaluate)
    assert effect.batch.question.loss_gradient


@pytest.mark.parametrize(
    ("plugin", "granted", "sentence"),
    [
        ("Plain", "loss_gradient", "with gradients of the loss, and .*:Plain has none; name another, or an algorithm"),
        ("Sloping", "constraint_gradient", "with gradients of the constraints, and .*:Sloping has none; name another"),
        ("Odd", "loss_gradient", "with gradients of the loss, and .*:Odd has none; name another"),
    ],
)
def test_gradients_that_the_plugin_does_not_have_are_one_sentence(
    file: Path, plugin: str, granted: str, sentence: str
) -> None:
    with pytest.raises(BadSpec, match=f"^feedback.{granted} = true needs an adversary.plugin {sentence}"):
        new(spec(f"{file}:{plugin}", **{granted: True}))


@pytest.mark.parametrize(
    ("keys", "seconds", "memory"),
    [
        ({}, LIMITS.plugin_seconds, LIMITS.plugin_memory_bytes),
        ({"seconds": 0.5}, 0.5, LIMITS.plugin_memory_bytes),
        ({"memory": 300}, LIMITS.plugin_seconds, 300 * 1024 * 1024),
    ],
)
def test_limits_of_a_plugin_are_the_spec_s_or_else_ours(keys: dict[str, float], seconds: float, memory: int) -> None:
    limits = limits_of(SPEC.replace(**{f"adversary.{key}": value for key, value in keys.items()}))

    assert (limits.plugin_seconds, limits.plugin_memory_bytes) == (seconds, memory)


def isolated(folder: Path, name: str, **keys: float) -> Spec:
    """Return the game of a plugin that grabs memory or does not return, in a worker with limits."""
    (folder / "greedy.py").write_text(GREEDY)
    adversary = {"plugin": f"{folder / 'greedy.py'}:{name}", "isolation": "process", **keys}
    return SPEC.replace(adversary=adversary)


def test_a_worker_that_may_take_no_more_memory_says_which_key_limits_it(tmp_path: Path) -> None:
    sentence = r"play of round 1 raised .*MemoryError: .*greedy\.py:\d+ .*allow its worker more \(adversary\.memory\)"
    with pytest.raises(PluginFailed, match=sentence), open_plugin(isolated(tmp_path, "Grabs", memory=512)) as opened:
        opened[0].play(1, None)
    with open_plugin(isolated(tmp_path, "Grabs", memory=2048)) as opened:
        opened[0].play(1, None)


@pytest.mark.slow
def test_a_call_that_takes_too_long_says_which_key_limits_it(tmp_path: Path) -> None:
    sentence = r"play of round 1 has not answered within 5 seconds \(adversary\.seconds\); make it faster, see"
    with pytest.raises(PluginFailed, match=sentence), open_plugin(isolated(tmp_path, "Hangs", seconds=5)) as opened:
        opened[0].play(1, None)


def test_the_instance_that_plays_has_played_nothing(file: Path) -> None:
    plugin, description = new(spec(f"{file}:Sloping", loss_gradient=True))

    log = type(plugin).log  # type: ignore[attr-defined]
    assert description.loss_gradient
    assert [(round, past) for _, round, past in log] == [(1, None)]
    assert log[0][0] != id(plugin)


def test_nothing_is_played_where_no_gradient_is_granted(file: Path) -> None:
    plugin, _ = new(spec(f"{file}:Plain"))

    assert type(plugin).log == []  # type: ignore[attr-defined]


def test_an_adaptive_plugin_is_looked_at_with_an_empty_past(file: Path) -> None:
    plugin, _ = new(spec(f"{file}:Adaptive", loss_gradient=True))

    ((_, _, past),) = type(plugin).log  # type: ignore[attr-defined]
    assert past.decisions.shape == (0, N, P)


def test_a_plugin_that_cannot_play_its_first_round_is_named(file: Path) -> None:
    sentence = (
        r"Failing failed: play of round 1 raised ArithmeticError: no functions today, at .*plugins\.py:\d+ `raise Arith"
    )
    with pytest.raises(PluginFailed, match=sentence):
        new(spec(f"{file}:Failing", loss_gradient=True))


def test_a_plugin_may_refuse_the_game_in_its_own_words(file: Path) -> None:
    with pytest.raises(CannotPlay, match=r"^this adversary needs an even number of agents$"):
        new(spec(f"{file}:Refusing", loss_gradient=True))
