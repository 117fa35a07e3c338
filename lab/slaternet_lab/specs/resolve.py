"""From what a user names to a spec that can be played anywhere: overridden, validated, paths and hashes filled in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from slaternet.errors import BadSpec
from slaternet.spec import AlgorithmSection, Spec
from slaternet.spec.overrides import override
from slaternet.spec.overrides import read as read_tables
from slaternet.spec.paths import as_written, data_files, located
from slaternet.spec.plugins import absolute
from slaternet.spec.session import is_of_session, sha256, target_of
from slaternet_agent.registry import numbers_taken, same_rule
from slaternet_lab.specs.assemble import assemble
from slaternet_lab.specs.protocol import breaches
from slaternet_lab.specs.shipped import FoundSpec, find

log = structlog.get_logger()


def resolve(spec: Spec, base: Path) -> Spec:
    """Return the spec with absolute paths, hashes, feedback and question filled in; relative paths start from `base`.

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


def load_for_all(what: str | None = None, settings: Sequence[str] = ()) -> Spec:
    """Return a resolved spec for services on several machines, each of which resolves paths by itself.

    Relative paths stay as they are. They start from the working directory, here too, wherever the spec file is.
    """
    here = Path.cwd()
    found = replace(find(what), base=here)
    resolved, written = resolve(_with_settings(found, settings), here), as_given(found, settings)
    # a seed that is to be drawn is the coordinator's to draw, the same one after a restart
    return as_written(resolved, written, here).replace(**{"adversary.seed": written.adversary.seed})


def exchanged(
    spec: Spec,
    adversary: type[Any] | str | None = None,
    options: Mapping[str, object] | None = None,
    algorithm: type[Any] | str | None = None,
) -> Spec:
    """Return a spec, not resolved, with another adversary, other options of it, or another algorithm.

    Either is a class, played in this process, or a target as a spec names one, relative paths starting from the working
    directory. Another adversary does not get the options of the old one; an algorithm takes over the schedule and
    numbers that mean the same to it.
    """
    if adversary is not None or options is not None:
        table = spec.adversary.model_dump(exclude_none=True, exclude={"sha256"})
        before = table.pop("plugin")
        plugin = before if adversary is None else _target(adversary)
        if plugin != before:
            table = {key: value for key, value in table.items() if key == "seed"}
        if isinstance(adversary, type):
            table["isolation"] = "none"
        given = {} if options is None else {"options": dict(options)}
        spec = spec.replace(adversary={**table, "plugin": plugin, **given})
    if algorithm is not None:
        derived = dict.fromkeys(("algorithm.sha256", "algorithm.mode", "algorithm.horizon"))
        changed = spec.replace(**{**derived, "algorithm.name": _target(algorithm)}, feedback=None, question=None)
        spec = _adapted(changed, spec.algorithm, {"algorithm.name"})
    return spec


def _target(code: type[Any] | str) -> str:
    """Return how a spec names a class, or a target with an absolute path."""
    if isinstance(code, str):
        return absolute(code, Path.cwd())
    target = target_of(code)
    if is_of_session(target) and not sha256(code):
        log.warning(f"the source of {code.__name__} is not known; the run folder does not say which code was played")
    return target


def read(what: str | None, settings: Sequence[str]) -> tuple[Spec, Path]:
    """Return a spec as its author wrote it, settings applied, and where its relative paths start.

    A path in a setting starts from the working directory, as everywhere on a command line. An algorithm that is named
    in a setting takes over the spec's schedule and numbers where they mean the same to it.
    """
    found = find(what)
    return _with_settings(found, settings), found.base


def as_given(found: FoundSpec, settings: Sequence[str]) -> Spec:
    """Return a spec with settings applied to the letter."""
    tables = read_tables(found.text, source=found.source)
    return Spec.load(override(tables, settings, source=found.source), source=found.source)


def _with_settings(found: FoundSpec, settings: Sequence[str]) -> Spec:
    keys = {each.partition("=")[0].strip() for each in settings}
    code = Path.cwd() if "adversary.plugin" in keys else found.base
    spec = located(as_given(found, settings), Path.cwd(), keys, code=code)
    if not keys.isdisjoint(data_files(spec, code)):
        spec = spec.replace(**{"adversary.sha256": None})  # it covers the old file
    match read_tables(found.text, source=found.source).get("algorithm"):
        case {"name": str(name), **rest} if name != spec.algorithm.name and "algorithm.name" in keys:
            before = {"name": absolute(name, found.base), "schedule": rest.get("schedule", "")}
            spec = _adapted(spec, AlgorithmSection.model_validate(before), keys)
    return spec


def _adapted(spec: Spec, before: AlgorithmSection, keys: Collection[str]) -> Spec:
    """Return the spec without what its new algorithm does not take over; explicit settings stay, right or wrong.

    Numbers belong to the schedule: those of the same name in another schedule mean something else.
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
