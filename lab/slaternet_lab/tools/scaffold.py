"""An adversary of the user's own to start from: an example in templates/, with its names replaced.

adversary    a Python package, which is formatted, checked and examined like all other code here
cpp          a program in C++, to which plugin.proto is added
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

_TEMPLATES = {"python": "adversary", "cpp": "cpp"}
_WORDS = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


def create(name: str, where: Path, language: str = "python") -> Path:
    """Write the files of the adversary `name` to a new folder below `where`, and return that folder.

    BadSpec, one sentence, before anything is written where the name is invalid or taken, or the folder exists.
    """
    plugin = _checked(name, language)
    folder = where / plugin
    if folder.exists():
        raise BadSpec(f"{folder} exists already; choose another NAME, or another place with --dir")
    for path, text in package_files(plugin, language).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def package_files(plugin: str, language: str = "python") -> dict[str, str]:
    """Return the files by their paths; `plugin` is words joined by dashes."""
    names = {
        "example-adversary": plugin,
        "example_adversary": plugin.replace("-", "_"),
        "ExampleAdversary": "".join(word.capitalize() for word in plugin.split("-")),
    }
    template = Path(str(files("slaternet_lab.tools"))) / "templates" / _TEMPLATES[language]

    def renamed(text: str) -> str:
        for example, name in names.items():
            text = text.replace(example, name)
        return text

    found = sorted(path for path in template.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    made = {renamed(path.relative_to(template).as_posix()): renamed(path.read_text(encoding="utf-8")) for path in found}
    if language == "cpp":
        made["plugin.proto"] = (files("slaternet.v1") / "plugin.proto").read_text(encoding="utf-8")
    return made


def _checked(name: str, language: str) -> str:
    """Return the plugin's name, words joined by dashes."""
    if not _WORDS.fullmatch(name) or len(name) > LIMITS.name_bytes:
        raise BadSpec(
            f"NAME must be at most {LIMITS.name_bytes} small letters and digits in words joined by dashes, for example "
            f"power-market, not {name!r}"
        )
    plugin, package = name.replace("_", "-"), name.replace("-", "_")
    if language != "python":
        return plugin
    if plugin in entry_points(group=GROUP).names:
        raise BadSpec(f"NAME {plugin} is the name of an installed adversary; choose another")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or find_spec(package) is not None:
        raise BadSpec(f"NAME {plugin} would make a package {package}, a name that Python has taken already; add a word")
    return plugin
