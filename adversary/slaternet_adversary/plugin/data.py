"""The files that the options of an adversary name: they decide its functions, as its code does."""

import hashlib
from pathlib import Path

from slaternet.spec import Spec
from slaternet.spec.paths import data_files
from slaternet.storage.files import opened
from slaternet_adversary.api import CannotPlay


def check_data(spec: Spec) -> None:
    """Refuse a file that cannot be read, before the plugin meets it."""
    for key, path in _files(spec).items():
        with opened(path, f"{key} = {path}", CannotPlay):
            pass


def hash_data(spec: Spec) -> str:
    """Return the SHA-256 of the file, of several that of the lines that `sha256sum` prints; empty where there is none.

    The path in a line is the option's key.
    """
    hashes = {}
    for key, path in _files(spec).items():
        with opened(path, f"{key} = {path}", CannotPlay) as file:
            hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    if len(hashes) < 2:
        return "".join(hashes.values())
    return hashlib.sha256("".join(f"{each}  {key}\n" for key, each in sorted(hashes.items())).encode()).hexdigest()


def with_data(spec: Spec) -> str:
    """Return the plugin's name with that of its files, for messages about a hash that covers both."""
    files = ", ".join(map(str, _files(spec).values()))
    return f"{spec.adversary.plugin}, with the data in {files}," if files else spec.adversary.plugin


def folders(spec: Spec) -> list[str]:
    """Return the options that name folders: what these hold is not hashed."""
    return [f"{key} = {path}" for key, path in data_files(spec).items() if Path(path).is_dir()]


def _files(spec: Spec) -> dict[str, Path]:
    return {key: Path(path) for key, path in data_files(spec).items() if not Path(path).is_dir()}
