"""From what a user names to a spec that can be played anywhere: overridden, validated, paths and hashes filled in."""

from collections.abc import Sequence
from pathlib import Path

from slaternet.errors import BadSpec
from slaternet.plugins import absolute
from slaternet.spec import Spec, override
from slaternet_lab.assumptions import breaches
from slaternet_lab.library import find
from slaternet_lab.parts import assemble

_CODE = ("algorithm.name", "graph.name", "adversary.plugin")


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

    A path in a setting starts from the working directory, as everywhere on a command line.
    """
    found = find(what)
    tables = override(found.text, [_from_here(each) for each in settings], source=found.source)
    return Spec.load(tables, source=found.source), found.base


def _from_here(setting: str) -> str:
    key, equals, value = setting.partition("=")
    if key.strip() not in _CODE:
        return setting
    return f"{key}{equals}{absolute(value.strip(), Path.cwd())}"
