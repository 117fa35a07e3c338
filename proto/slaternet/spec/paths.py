"""The files that a spec names: code by a path, the graphs of `graph.name = "file"`, and data of adversaries.

A relative path starts at the folder of the spec in a game of one process, and at the working directory of each service
in a game of several.
"""

import os
from collections.abc import Collection
from pathlib import Path

from slaternet.spec import Spec
from slaternet.spec.plugins import absolute

_DATA = {"replay": "path", "logistic": "data"}
"""The adversaries that read a file, and the option that names it; the options of plugins are not interpreted."""
_CODE = ("algorithm.name", "graph.name", "adversary.plugin")
FILES = (
    *_CODE,
    "graph.path",
    *(f"adversary.options.{name}" for name in _DATA.values()),
)
"""The keys of a spec that may name a file."""


def located(spec: Spec, base: Path, keys: Collection[str] = FILES) -> Spec:
    """Return the spec with the files that these keys name made absolute against `base`."""
    return spec.replace(**{key: place for key, place in _places(spec, base).items() if key in keys})


def as_written(spec: Spec, written: Spec, base: Path) -> Spec:
    """Return the spec with the paths as they were `written`, where they have been made absolute against `base`."""
    here, before = _values(spec), _values(written)
    same = {key: before[key] for key, place in _places(written, base).items() if here.get(key) == place}
    return spec.replace(**same)


def data_files(spec: Spec) -> list[Path]:
    """Return the files that a spec names beside code."""
    return [Path(value) for key, value in _values(spec).items() if key not in _CODE]


def _values(spec: Spec) -> dict[str, str]:
    """Return the values of the keys that may name a file."""
    values: dict[str, object] = {
        "algorithm.name": spec.algorithm.name,
        "graph.name": spec.graph.name,
        "graph.path": spec.graph.numbers.get("path"),
        "adversary.plugin": spec.adversary.plugin,
    }
    if (option := _DATA.get(spec.adversary.plugin)) is not None:
        values[f"adversary.options.{option}"] = spec.adversary.options.get(option)
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _places(spec: Spec, base: Path) -> dict[str, str]:
    """Return the values of the same keys, with every path made absolute."""
    return {
        key: absolute(value, base) if key in _CODE else os.path.realpath(base / value)
        for key, value in _values(spec).items()
    }
