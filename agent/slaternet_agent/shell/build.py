"""From a resolved spec to a host's parts."""

from slaternet.errors import Mismatch
from slaternet.model import Description
from slaternet.spec import PublicSpec
from slaternet.spec.plugins import load
from slaternet_agent.algorithms import Algorithm, AlgorithmGame
from slaternet_agent.code_registry import CODES, build_code
from slaternet_agent.engine.public_copies import PublicCopies
from slaternet_agent.registry import GROUP, build
from slaternet_agent.shell.guarded_code import GuardedCode


def build_algorithm(spec: PublicSpec, description: Description) -> Algorithm:
    """Return the algorithm of a game whose plugin is described."""
    loaded = load(GROUP, spec.algorithm.name, key="algorithm.name")
    _require_same(f"algorithm {spec.algorithm.name}", loaded.sha256, spec.algorithm.sha256)
    return build(spec.algorithm, game_of(spec, description))


def build_copies(spec: PublicSpec, description: Description, algorithm: Algorithm) -> PublicCopies | None:
    """Return the rule by which rows of a game become messages; None where they travel as they are."""
    section = spec.gossip
    if section.plain:
        return None
    loaded = load(CODES, section.code, key="gossip.code")
    _require_same(f"gossip code {section.code}", loaded.sha256, section.sha256)
    code = build_code(section, game_of(spec, description), algorithm.width)
    return PublicCopies(GuardedCode(code, algorithm.width), section, algorithm, spec.feasible_set())


def _require_same(what: str, here: str, expected: str) -> None:
    """Refuse code that is not that of the spec, where the spec says which it is."""
    if expected and here != expected:
        raise Mismatch(
            f"{what} has SHA-256 {here[:16]} here and {expected[:16]} in the spec; "
            "bring the same file, and what it imports, to every host"
        )


def game_of(spec: PublicSpec, description: Description) -> AlgorithmGame:
    """Return what an algorithm may know of the game."""
    run = spec.run
    horizon = spec.algorithm.horizon or run.rounds  # a game that was stopped had another horizon than its last round
    return AlgorithmGame(run.agents, run.dimension, description.constraints, horizon, run.seed, spec.feasible_set())
