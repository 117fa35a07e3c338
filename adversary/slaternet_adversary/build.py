"""From a resolved spec to the adversary's parts: the plugin, its description, the referee."""

from dataclasses import replace

import numpy as np

from slaternet.errors import BadSpec, PluginFailed
from slaternet.model import Description
from slaternet.plugins import Loaded, check_options, load
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary, Game, History, Round
from slaternet_adversary.referee import Referee

GROUP = "slaternet.adversaries"

_GRADIENTS = {"loss_gradient": "the loss", "constraint_gradient": "the constraints"}


def is_built_in(target: str) -> bool:
    """Say whether a plugin ships with us."""
    return load(GROUP, target, key="adversary.plugin").factory.__module__.startswith("slaternet_adversary.builtin.")


def load_plugin(spec: Spec) -> tuple[Adversary, Description]:
    """Return a new instance of the spec's plugin and what others must know of it.

    BadSpec where [feedback] grants gradients that the plugin does not have.
    """
    loaded = load(GROUP, spec.adversary.plugin, key="adversary.plugin")
    plugin = _new(spec, loaded)
    description = Description(
        constraints=plugin.constraints, history=plugin.history, rowwise=plugin.rowwise, code=loaded.sha256
    )
    return plugin, with_gradients(spec, description)


def with_gradients(spec: Spec, description: Description) -> Description:
    """Return the description with the gradients that [feedback] grants; BadSpec where the plugin does not have them.

    Only a round can tell: one is played on an instance made for that, so that the one of the game plays every round
    once. Where no gradient is granted nothing is made or played.
    """
    granted = spec.feedback
    unknown = [name for name in _GRADIENTS if getattr(granted, name, False) and not getattr(description, name)]
    if granted is None or not unknown:
        return description
    functions = _first_round(spec)
    for name in unknown:
        if not callable(getattr(functions, name, None)):
            raise BadSpec(
                f"feedback.{name} = true needs an adversary.plugin with gradients of {_GRADIENTS[name]}, and "
                f"{spec.adversary.plugin} has none; name another, or an algorithm.name that needs no gradients"
            )
    return replace(description, loss_gradient=granted.loss_gradient, constraint_gradient=granted.constraint_gradient)


def _first_round(spec: Spec) -> Round:
    """Return round 1 of an instance that plays nothing else."""
    plugin = _new(spec, load(GROUP, spec.adversary.plugin, key="adversary.plugin"))
    past = History(np.empty((0, spec.run.agents, spec.run.dimension))) if plugin.history else None
    try:
        return plugin.play(1, past)
    except BadSpec:
        raise
    except Exception as error:
        raise PluginFailed(
            f"the adversary plugin {spec.adversary.plugin} failed: play(1) raised {type(error).__name__}: {error}"
        ) from error


def _new(spec: Spec, loaded: Loaded) -> Adversary:
    check_options(loaded.factory, spec.adversary.options, key="adversary.options", given=1)
    game = Game(spec.run.agents, spec.run.dimension, spec.run.seed, spec.feasible_set())
    try:
        plugin = loaded.factory(game, **spec.adversary.options)
    except BadSpec:
        raise
    except Exception as error:
        raise PluginFailed(
            f"the adversary plugin {spec.adversary.plugin} could not be made: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(plugin, Adversary) or not isinstance(getattr(plugin, "constraints", None), int):
        raise PluginFailed(
            f"the adversary plugin {spec.adversary.plugin} must be a slaternet_adversary.Adversary that says how many "
            "constraints an agent has"
        )
    return plugin


def build_referee(spec: Spec, description: Description) -> Referee:
    """Return the referee of a game."""
    if spec.feedback is None:
        raise BadSpec("[feedback] is missing; a resolved spec says what is granted (slaternet resolves it)")
    return Referee(
        spec.run.agents,
        spec.feasible_set(),
        points=spec.feedback.points,
        constraints=description.constraints,
        rounds=spec.run.rounds,
        loss_gradient=spec.feedback.loss_gradient,
        constraint_gradient=spec.feedback.constraint_gradient,
        history=description.history,
        score_every=spec.record.score_every,
    )
