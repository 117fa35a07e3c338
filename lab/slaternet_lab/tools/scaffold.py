"""A package for an adversary of the user's own: the example in templates/adversary, with its names replaced.

The example is a package that works, so that it is formatted, checked and examined like all other code here.
"""

import keyword
import re
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet_adversary.plugin.makers import GROUP

_WORDS = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


def create(name: str, where: Path) -> Path:
    """Write the package of the adversary `name` to a new folder below `where`, and return that folder.

    BadSpec, one sentence, before anything is written where the name is invalid or taken, or the folder exists.
    """
    plugin = _checked(name)
    folder = where / plugin
    if folder.exists():
        raise BadSpec(f"{folder} exists already; choose another NAME, or another place with --dir")
    for path, text in package_files(plugin).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def package_files(plugin: str) -> dict[str, str]:
    """Return the files of the package by their paths; `plugin` is words joined by dashes."""
    names = {
        "example-adversary": plugin,
        "example_adversary": plugin.replace("-", "_"),
        "ExampleAdversary": "".join(word.capitalize() for word in plugin.split("-")),
    }
    template = Path(str(files("slaternet_lab.tools"))) / "templates" / "adversary"

    def renamed(text: str) -> str:
        for example, name in names.items():
            text = text.replace(example, name)
        return text

    found = sorted(path for path in template.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {renamed(path.relative_to(template).as_posix()): renamed(path.read_text(encoding="utf-8")) for path in found}


def _checked(name: str) -> str:
    """Return the plugin's name, words joined by dashes."""
    if not _WORDS.fullmatch(name) or len(name) > LIMITS.name_bytes:
        raise BadSpec(
            f"NAME must be at most {LIMITS.name_bytes} small letters and digits in words joined by dashes, for example "
            f"power-market, not {name!r}"
        )
    plugin, package = name.replace("_", "-"), name.replace("-", "_")
    if plugin in entry_points(group=GROUP).names:
        raise BadSpec(f"NAME {plugin} is the name of an installed adversary; choose another")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or find_spec(package) is not None:
        raise BadSpec(f"NAME {plugin} would make a package {package}, a name that Python has taken already; add a word")
    return plugin
