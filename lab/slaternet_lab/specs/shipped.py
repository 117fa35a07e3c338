"""Find a spec: a file, a run folder, or one that is shipped with the package."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from slaternet.errors import BadSpec
from slaternet.storage.files import read_spec_text
from slaternet.suggestions import suggestion

DEFAULT = "paper"
"""The shipped spec that is played where none is named."""
EXAM: dict[str, object] = {
    "run": {"name": "exam", "agents": 6, "dimension": 5},
    "set": {"kind": "box", "lower": -2.0, "upper": 2.0},
    "graph": {"name": "complete"},
    "algorithm": {"name": "zero"},
    "adversary": {"plugin": ""},
}
"""The game of an exam where no spec is named; only agents and set matter."""


@dataclass(frozen=True)
class FoundSpec:
    """The text of a spec, what to call it in messages, and the folder its relative paths start from."""

    text: str
    source: str
    base: Path

    @property
    def title(self) -> str:
        """The spec's first comment line."""
        first = self.text.partition("\n")[0]
        return first.lstrip("# ").rstrip(",:;") if first.startswith("#") else ""


def names() -> list[str]:
    """Return the names of the shipped specs."""
    return sorted(path.name.removesuffix(".toml") for path in _shelf().iterdir() if path.name.endswith(".toml"))


def shipped(name: str) -> FoundSpec:
    """Return a shipped spec; its relative paths start from the working directory."""
    if name not in names():
        raise BadSpec(f"{name} is not a shipped spec; {suggestion(name, names())}")
    return FoundSpec((_shelf() / f"{name}.toml").read_text(encoding="utf-8"), name, Path.cwd())


def find(what: str | None = None) -> FoundSpec:
    """Return the spec that a user means by `what`: a shipped name, a file, or a run folder; BadSpec where none is."""
    if what is None or what in names():
        return shipped(what or DEFAULT)
    path = Path(what)
    if path.is_dir():
        path = path / "spec.toml"
    if not path.is_file():
        raise BadSpec(f"{what} is neither a file nor a shipped spec; {suggestion(what, names())}")
    return FoundSpec(read_spec_text(path), str(path), path.resolve().parent)


def _shelf() -> Path:
    return Path(str(files("slaternet_lab"))) / "specs"
