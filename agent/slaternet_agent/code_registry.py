"""Builds the gossip code that `[gossip]` of a spec names, with its numbers."""

import dataclasses

from slaternet.errors import BadSpec
from slaternet.fields import options_of
from slaternet.limits import LIMITS
from slaternet.model import Layout
from slaternet.spec import GossipSection
from slaternet.spec.plugins import load, plugin_edge
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code

CODES = "slaternet.codes"
"""The entry-point group."""
_MOST_BITS = 64


def completed_gossip(section: GossipSection) -> GossipSection:
    """Return the section with `difference` as its code needs it, or where both make sense, false unless given."""
    needed, given = _code_class(section).difference, section.difference
    if needed is not None and given is not None and needed != given:
        of, other = ("differences", "true") if needed else ("rows as they are", "false")
        raise BadSpec(
            f"gossip.difference must be {other}, because {section.code} is a code of {of}; leave it out, or choose "
            "another code"
        )
    return section.model_copy(update={"difference": bool(given if needed is None else needed)})


def build_code(section: GossipSection, game: AlgorithmGame, width: int) -> Code:
    """Return the code for rows of `width` numbers; BadSpec names the key at fault."""
    if len(section.code.encode()) > LIMITS.text_bytes:
        raise BadSpec(f"gossip.code is longer than {LIMITS.text_bytes} bytes; frames name it, so use a shorter path")
    if not width and not section.plain:
        raise BadSpec(f"gossip.code = {section.code} codes what agents send, and they send nothing; leave out [gossip]")
    factory = _code_class(section)
    options = options_of(factory, given=2)
    options.check(section.numbers, key="gossip", of=section.code)
    numbers = options.read(section.numbers, key="gossip")
    with plugin_edge("gossip code", section.code, "constructor"):
        code = factory(game, width, **numbers)
    layout = getattr(code, "layout", None)
    if not isinstance(layout, Layout):
        raise BadSpec(
            f"gossip.code = {section.code!r} does not say what a row is made of; set `self.layout = Layout(...)` in "
            "the class"
        )
    counts = (layout.scales, layout.numbers, layout.bits)
    if not all(isinstance(each, int) and each >= 0 for each in counts) or layout.bits > _MOST_BITS:
        raise BadSpec(
            f"gossip.code = {section.code!r} has a layout of {counts} scales, numbers and bits; use whole numbers from "
            f"0, and at most {_MOST_BITS} bits"
        )
    code.layout = dataclasses.replace(layout, code=section.code)
    return code


def code_numbers(section: GossipSection) -> set[str]:
    """Return the names of all numbers that the code takes."""
    return {*options_of(_code_class(section), given=2).parameters}


def _code_class(section: GossipSection) -> type[Code]:
    factory = load(CODES, section.code, key="gossip.code").factory
    if not issubclass(factory, Code):
        raise BadSpec(
            f"gossip.code = {section.code!r} is not a gossip code; make {factory.__name__} a subclass of "
            "slaternet_agent.Code"
        )
    return factory
