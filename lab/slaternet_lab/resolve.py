"""From what a user names to a spec that can be played anywhere: overridden, validated, paths and hashes filled in."""

from collections.abc import Collection, Sequence
from pathlib import Path

import structlog

from slaternet.errors import BadSpec
from slaternet.plugins import absolute
from slaternet.spec import AlgorithmSection, Spec, override
from slaternet.spec import read as read_tables
from slaternet_agent.algorithms import numbers_taken, same_rule
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
    in a setting takes over the spec's schedule and numbers where they mean the same to it.
    """
    found = find(what)
    keys = {each.partition("=")[0].strip() for each in settings}
    tables = read_tables(found.text, source=found.source)
    spec = Spec.load(override(tables, settings, source=found.source), source=found.source)
    spec = located(spec, Path.cwd(), keys)
    match tables.get("algorithm"):
        case {"name": str(name), **rest} if name != spec.algorithm.name and "algorithm.name" in keys:
            before = {"name": absolute(name, found.base), "schedule": rest.get("schedule", "")}
            spec = _taken_over(spec, AlgorithmSection.model_validate(before), keys)
    return spec, found.base


def _taken_over(spec: Spec, before: AlgorithmSection, keys: Collection[str]) -> Spec:
    """Return the spec without what its new algorithm does not take over; what settings say stays, right or wrong.

    Numbers go with the schedule: those of the same name in another schedule mean something else.
    """
    section = spec.algorithm
    same = same_rule(before, section)
    kept = numbers_taken(section) if same else set()
    left_out = [name for name in section.numbers if name not in kept and f"algorithm.{name}" not in keys]
    if not same and section.schedule and "algorithm.schedule" not in keys:
        left_out.insert(0, "schedule")
    if left_out:
        log.info(f"left out of [algorithm], because {section.name} does not take it over: {', '.join(left_out)}")
    return spec.replace(**{f"algorithm.{name}": None for name in left_out})
