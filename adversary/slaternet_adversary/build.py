"""From a resolved spec to the adversary's parts: the plugin, its description, the referee."""

from slaternet.errors import BadSpec, PluginFailed
from slaternet.model import Description
from slaternet.plugins import check_options, load
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary, Game
from slaternet_adversary.referee import Referee

GROUP = "slaternet.adversaries"


def load_plugin(spec: Spec) -> tuple[Adversary, Description]:
    """Return a new instance of the spec's plugin and what others must know of it."""
    loaded = load(GROUP, spec.adversary.plugin, key="adversary.plugin")
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
    return plugin, Description(
        constraints=plugin.constraints, history=plugin.history, rowwise=plugin.rowwise, code=loaded.sha256
    )


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
        history=description.history,
        score_every=spec.record.score_every,
    )
