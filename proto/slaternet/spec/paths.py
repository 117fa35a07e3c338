"""The files that a spec names: code by a path, the graphs of `graph.name = "file"`, and data of adversaries.

Data of an adversary is named by an option that its constructor declares as a `Path`. A relative path starts at the
folder of the spec in a game of one process, and at the working directory of each service in a game of several.
"""

import os
from collections.abc import Collection
from pathlib import Path

from slaternet.spec import Spec
from slaternet.spec.plugins import ADVERSARIES, absolute, files_of

_CODE = ("algorithm.name", "graph.name", "gossip.code", "adversary.plugin")
_OPTIONS = "adversary.options"


def located(spec: Spec, base: Path, keys: Collection[str] | None = None, *, code: Path | None = None) -> Spec:
    """Return the spec with the files that it names made absolute against `base`: those of some keys, or all.

    `code` is where the plugin's own path starts if `keys` leave it out.
    """
    places = _places(spec, base, code or base)
    return spec.replace(**{key: place for key, place in places.items() if keys is None or key in keys})


def as_written(spec: Spec, written: Spec, base: Path) -> Spec:
    """Return the spec with the paths as they were `written`, where they have been made absolute against `base`."""
    here, before = _values(spec, base), _values(written, base)
    same = {key: before[key] for key, place in _places(written, base, base).items() if here.get(key) == place}
    return spec.replace(**same)


def data_files(spec: Spec, base: Path | None = None) -> dict[str, str]:
    """Return the keys of the adversary's options that name files, with the paths; code by a path starts at `base`."""
    options = {name: value for name, value in spec.adversary.options.items() if isinstance(value, str)}
    if not options:
        return {}
    plugin = absolute(spec.adversary.plugin, base or Path())
    names = files_of(ADVERSARIES, plugin, key="adversary.plugin")
    return {f"{_OPTIONS}.{name}": options[name] for name in names if name in options}


def _values(spec: Spec, base: Path) -> dict[str, str]:
    """Return the values of the keys that may name a file."""
    values: dict[str, object] = {
        "algorithm.name": spec.algorithm.name,
        "graph.name": spec.graph.name,
        "graph.path": spec.graph.numbers.get("path"),
        "gossip.code": spec.gossip.code,
        "adversary.plugin": spec.adversary.plugin,
        **data_files(spec, base),
    }
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _places(spec: Spec, base: Path, code: Path) -> dict[str, str]:
    """Return the values of the same keys, with every path made absolute."""
    return {
        key: absolute(value, base) if key in _CODE else os.path.realpath(base / value)
        for key, value in _values(spec, code).items()
    }
