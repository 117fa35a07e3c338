"""From what a user names to a spec that can be played anywhere: overridden, validated, paths and hashes filled in."""

from collections.abc import Collection, Sequence
from pathlib import Path

import structlog

from slaternet.errors import BadSpec
from slaternet.spec import Spec, override
from slaternet_agent.algorithms import numbers_taken, schedules_named
from slaternet_lab.assumptions.report import breaches
from slaternet_lab.library import find
from slaternet_lab.parts import assemble, located

log = structlog.get_logger()


def resolve(spec: Spec, base: Path) -> Spec:
    """Return the spec with absolute paths, hashes and feedback filled in; `base` is where relative paths start.

    Nothing is started before this has passed: BadSpec is one sentence naming the key and the remedy.
    """
    parts = assemble(spec, base)
    for sentence in breaches(parts):
        raise BadSpec(sentence)
    return parts.spec


def load(what: str | None = None, settings: Sequence[str] = ()) -> Spec:
    """Return a resolved spec: a shipped name, a file or a run folder, with `section.key=value` settings applied.

    load("paper", ["run.rounds=200", "adversary.options.b=5"])
    """
    return resolve(*read(what, settings))


def read(what: str | None, settings: Sequence[str]) -> tuple[Spec, Path]:
    """Return a spec as its author wrote it, settings applied, and where its relative paths start.

    A path in a setting starts from the working directory, as everywhere on a command line. An algorithm that is named
    in a setting takes over of the spec's schedule and numbers what it takes.
    """
    found = find(what)
    keys = {each.partition("=")[0].strip() for each in settings}
    spec = Spec.load(override(found.text, settings, source=found.source), source=found.source)
    spec = located(spec, Path.cwd(), keys)
    if "algorithm.name" in keys:
        spec = _taken_over(spec, keys)
    return spec, found.base


def _taken_over(spec: Spec, keys: Collection[str]) -> Spec:
    """Return the spec without what its new algorithm does not take; what settings say stays, right or wrong."""
    section, left_out = spec.algorithm, []
    if "algorithm.schedule" not in keys and section.schedule not in schedules_named(section):
        section, left_out = section.model_copy(update={"schedule": ""}), ["schedule"]
    taken = numbers_taken(section)
    left_out += [name for name in section.numbers if name not in taken and f"algorithm.{name}" not in keys]
    if left_out:
        log.info(f"left out of [algorithm], because {section.name} does not take it: {', '.join(left_out)}")
    return spec.replace(**{f"algorithm.{name}": None for name in left_out})
