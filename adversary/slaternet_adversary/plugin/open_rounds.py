"""The functions of the rounds in play."""

from slaternet.errors import Diverged, PluginFailed
from slaternet.model import Agents, Array, Question, ValueAndGradient, Values
from slaternet.spec.plugins import plugin_edge
from slaternet_adversary.api import Adversary, History
from slaternet_adversary.engine.events import Play, Played, Score
from slaternet_adversary.plugin.calls import (
    KIND,
    CheckedRound,
    contradiction,
    first_difference,
    name_of,
    passing,
    require_round,
)
from slaternet_adversary.scoring import NetworkScore, Scored, Scoring


class OpenRounds:
    """The rounds whose functions are fixed and not recorded yet. One call at a time."""

    def __init__(self, plugin: Adversary) -> None:
        self.plugin = plugin
        self._rounds: dict[int, CheckedRound] = {}
        self._scoring: Scoring | None = None

    def play(self, effect: Play) -> Played:
        """Have the functions of a round fixed."""
        past = None if effect.past is None else History(effect.past)
        # a user's plugin that cannot play a round has failed, whatever error it raises; Diverged is ours
        ours = passing(type(self.plugin), PluginFailed, Diverged)
        plugin, round = self.plugin, effect.round
        with plugin_edge(KIND, name_of(plugin), "play", round, of=plugin, passing=ours):
            functions = plugin.play(round, past)
        require_round(plugin, round, functions)
        self._rounds[round] = CheckedRound(plugin, round, functions)
        return Played(round)

    def forget(self, round: int) -> None:
        """Drop a round that is recorded."""
        self._rounds.pop(round, None)

    def score(self, effect: Score) -> Scored | None:
        """Do a piece of scoring a round, the same round until it is done; return the score then."""
        at, agents = self._rounds[effect.round], effect.agents
        if self._scoring is None:
            centre, constraints = self.plugin.game.set.centre, self.plugin.constraints
            with at.edge("scoring", agents):
                scoring = Scoring(at.functions, effect.round, effect.decisions, centre, constraints, agents)
            self._scoring = scoring
        if (scored := at.scored(self._scoring.step, agents)) is None:
            return None
        at.require_finite(agents, scored.loss + scored.zero_loss, scored.violation + scored.zero_violation)
        self._scoring = None
        return scored

    def measure(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation of some agents at points (N, p), by the functions that are scored, (N,) each."""
        at = self._rounds[round]
        with at.edge("scoring", agents):
            network = NetworkScore(at.functions, agents, points, at.m)
        while not at.scored(network.step, agents):
            pass
        return network.loss, network.violation

    def evaluate(self, question: Question) -> Values:
        """Return the values that a question asks for."""
        at = self._rounds[question.round]
        f, g = (at.asked(method, question.agents, question.points) for method in ("loss", "constraint"))
        loss = _tangent(at, question, "loss") if question.loss_gradient else None
        constraint = _tangent(at, question, "constraint") if question.constraint_gradient else None
        return Values(f, g, loss, constraint)

    def checked(self, question: Question, f: object, g: object) -> Values:
        """Return values that the plugin has given for a question, whole and finite, or PluginFailed is raised."""
        at, shape = self._rounds[question.round], question.points.shape[:2]
        loss = at.checked("loss", f, shape, question.agents)
        return Values(loss, at.checked("constraint", g, (*shape, at.m), question.agents))

    def compare(self, question: Question, before: Values, *, changed: bool = False) -> None:
        """Ask a question again; Diverged where an answer is not, to the bit, what it was before.

        `changed`: the plugin's code is another now.
        """
        agent = first_difference(question.agents, _arrays(before), _arrays(self.evaluate(question)))
        if agent is not None:
            raise contradiction(self.plugin, question.round, agent, changed=changed)


def _arrays(values: Values) -> list[Array | None]:
    arrays: list[Array | None] = [values.f, values.g]
    for tangent in (values.loss, values.constraint):
        arrays += (None, None) if tangent is None else (tangent.value, tangent.gradient)
    return arrays


def _tangent(at: CheckedRound, question: Question, what: str) -> ValueAndGradient | None:
    """Return a function's value and gradient at the anchor; nothing else is evaluated there."""
    if question.anchor is None:
        return None
    points = question.anchor[:, None]
    value, gradient = (at.asked(method, question.agents, points) for method in (what, f"{what}_gradient"))
    return ValueAndGradient(value[:, 0], gradient[:, 0])
