"""A package's public names, imported when they are first used."""

import importlib
from collections.abc import Callable, Mapping


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose public names are defined in these modules, each with its names.

    Importing the package then imports nothing else: a process can first set environment variables that numpy and gRPC
    read at import, and reading results needs neither gRPC nor figures.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def getter(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return getter
