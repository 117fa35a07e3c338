"""Which adversaries have passed the exam as they are: by the SHA-256 of their code, in the user's cache folder.

    $XDG_CACHE_HOME/slaternet/examined/SHA-256    an empty file; in ~/.cache where the variable is not set

Nothing but a hint depends on it: where the folder cannot be read there is none, and where it cannot be written nothing
is recorded.
"""

import os
from contextlib import suppress
from pathlib import Path

from slaternet.spec.plugins import ADVERSARIES, digest, is_python
from slaternet_adversary.plugin.makers import is_built_in

_MOST = 1000
"""Files that are kept, the newest."""


def code_of(plugin: str) -> str:
    """Return the SHA-256 of the user's code; empty where it is ours, or a program of another language."""
    return digest(ADVERSARIES, plugin, key="adversary.plugin") if is_python(plugin) and not is_built_in(plugin) else ""


def needs_exam(plugin: str) -> bool:
    """Whether an adversary of the user's own has not passed the exam as it is."""
    code = code_of(plugin)
    with suppress(OSError, RuntimeError):
        return bool(code) and not (_folder() / code).exists()
    return False


def record(code: str) -> None:
    """Record that code has passed the exam."""
    with suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / code).touch()
        held = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in held[:-_MOST]:
            path.unlink(missing_ok=True)


def _folder() -> Path:
    """Return the folder; RuntimeError where the user has no home."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # the standard that defines the variable has relative paths ignored
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "slaternet" / "examined"
