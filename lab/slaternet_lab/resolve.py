"""From what a user names to a spec that can be played anywhere: overridden, validated, paths and hashes filled in."""

from collections.abc import Sequence
from pathlib import Path

from slaternet.errors import BadSpec
from slaternet.spec import Spec, override
from slaternet_lab.assumptions import breaches
from slaternet_lab.library import find
from slaternet_lab.parts import assemble, located


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
    spec = Spec.load(override(found.text, settings, source=found.source), source=found.source)
    return located(spec, Path.cwd(), {each.partition("=")[0].strip() for each in settings}), found.base
