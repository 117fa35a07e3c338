"""Sections [gossip] of all kinds, and their rules."""

from slaternet.spec import GossipSection
from slaternet_agent.algorithms import Algorithm, AlgorithmGame
from slaternet_agent.code_registry import build_code
from slaternet_agent.engine.public_copies import PublicCopies

SECTIONS = {
    "exact triggered": GossipSection(code="exact", difference=False, trigger=2.0, step=1.0),
    "float32": GossipSection(code="float32", difference=False, step=1.0),
    "float16": GossipSection(code="float16", difference=False, step=1.0),
    "float16 differences": GossipSection(code="float16", difference=True, step=1.0),
    "grid": GossipSection.model_validate({"code": "grid", "difference": False, "step": 1.0, "width": 0.05}),
    "grid triggered": GossipSection.model_validate(
        {"code": "grid", "difference": False, "step": 1.0, "width": 1.0, "power": 1.0, "trigger": 1.0}
    ),
    "grid differences": GossipSection.model_validate(
        {"code": "grid", "difference": True, "step": 1.0, "width": 10.0, "power": 1.0}
    ),
    "top-k": GossipSection.model_validate({"code": "top-k", "difference": True, "step": 0.8, "keep": 2}),
    "random-k": GossipSection.model_validate({"code": "random-k", "difference": True, "step": 0.8, "keep": 1}),
    "sign": GossipSection(code="sign", difference=True, step=0.5),
    "levels": GossipSection.model_validate({"code": "levels", "difference": True, "step": 1.0, "levels": 4}),
    "levels triggered": GossipSection.model_validate(
        {"code": "levels", "difference": True, "step": 1.0, "levels": 4, "trigger": 2.0, "trigger_power": 0.5}
    ),
}
"""By name: resolved sections of all codes, with and without differences and triggers."""


def rule_of(name: str, algorithm: Algorithm, game: AlgorithmGame) -> PublicCopies:
    """Return the rule of a section."""
    section = SECTIONS[name]
    return PublicCopies(build_code(section, game, algorithm.width), section, algorithm, game.set)
