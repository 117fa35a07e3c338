"""The files that a plugin's code consists of: its own, and those it imports from the same folder or package.

They are found without executing anything: by `import` and `from ... import` anywhere in a file, in functions too, and
by `import_module` of a literal name, from file to file. Only files that are reached so are read. The modules of a
single file's folder are then executed as they were read, under names that no package has and that differ with every
change: a plugin gets its own helper, never one that another plugin or an earlier command has imported.
"""

import ast
import functools
import hashlib
import importlib
import importlib.abc
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OURS = ("slaternet", "slaternet_agent", "slaternet_coordinator", "slaternet_adversary")
"""The packages of built-ins. There is one copy of them in a process: a plugin's base class is one of theirs."""

PLUGINS = "slaternet_plugin_"
"""How the names of the packages begin that are made for plugins of single files."""

_IMPORTERS = ("import_module", "__import__")
_INIT = "__init__.py"
_NAME_BYTES = 250
"""No file has a longer name: file systems allow 255 bytes, with the suffix."""


@dataclass(frozen=True)
class Sources:
    """The files of a plugin by the names of their modules; a package without __init__.py is a folder without data."""

    files: dict[str, tuple[Path, bytes | None]]
    base: Path
    """Where the paths of the files begin."""

    @property
    def paths(self) -> list[Path]:
        """The files, without folders that are packages."""
        return [path for path, data in self.files.values() if data is not None]

    def sha256(self) -> str:
        """Return the SHA-256 of the file; of several, that of the lines that `sha256sum` prints, sorted by path."""
        read = (each for each in self.files.values() if each[1] is not None)
        held = {Path(os.path.relpath(path, self.base)).as_posix(): data or b"" for path, data in read}
        if len(held) == 1:
            return hashlib.sha256(*held.values()).hexdigest()
        lines = (f"{hashlib.sha256(held[name]).hexdigest()}  {name}\n" for name in sorted(held))
        return hashlib.sha256(os.fsencode("".join(lines))).hexdigest()


def of_file(path: Path) -> Sources:
    """Return a file and what it imports from its folder, or from a package that the folder is in.

    A module that is installed elsewhere is not taken from the folder.
    """
    main = path.stem if path.stem.isidentifier() else "__plugin__"
    return _reached([(main, path)], _FileTerritory(path.parent), path.parent)


def of_module(name: str, origin: Path, top: Sequence[str] | None, *, package: bool) -> Sources:
    """Return a module and what it imports from the package that it is in, or, if it is in none, from its folder.

    `top` are the folders of the outermost package, None of a module without one. The module may itself be a `package`,
    which is taken with all files it holds.
    """
    if top is None:
        installed = origin.parent.name in ("site-packages", "dist-packages") or name in sys.stdlib_module_names
        return _reached([(name, origin)], _Territory(() if installed else (origin.parent,)), origin.parent)
    folders, outer = tuple(map(Path, top)), name.split(".")
    starts = [(name, origin)]
    for path in sorted(origin.parent.rglob("*.py")) if package else ():
        inner = path.relative_to(origin.parent).with_suffix("").parts
        starts.append((".".join((name, *inner)).removesuffix(".__init__"), path))
    base = next((folder for folder in folders if origin.is_relative_to(folder)), folders[0]).parent
    packages = [".".join(outer[:depth]) for depth in range(1, len(outer))]
    return _reached(starts, _Territory(folders, outer[0]), base, packages)


@dataclass(frozen=True)
class _Territory:
    """Where modules are looked up: in the folders of a package, or, where its name is empty, of modules without one."""

    folders: tuple[Path, ...]
    package: str = ""

    def find(self, name: str) -> Path | None:
        """Return the file of a module, or the folder of a package without __init__.py."""
        first, *rest = parts = name.split(".")
        if not all(map(_is_module_name, parts)) or first != (self.package or first):
            return None
        for folder in self.folders:
            place = folder.joinpath(*(rest if self.package else parts))
            files = (place / _INIT, place.with_name(f"{place.name}.py"))
            found = next((each for each in files if each.is_file()), place if place.is_dir() else None)
            if found is not None:
                return found
        return None


class _FileTerritory(_Territory):
    """The folder of a file, and any package that the folder is in and that can be imported."""

    def __init__(self, folder: Path) -> None:
        super().__init__((folder,))

    def find(self, name: str) -> Path | None:
        first, folder = name.partition(".")[0], self.folders[0]
        found = super().find(name)
        if found is not None and not _is_installed(first, folder):
            return found
        if first not in folder.parts or (package := PathFinder.find_spec(first)) is None:
            return None
        around = (Path(each).resolve() for each in package.submodule_search_locations or ())
        return _Territory(tuple(each for each in around if folder.is_relative_to(each)), first).find(name)


def _is_module_name(part: str) -> bool:
    return part.isidentifier() and len(os.fsencode(part)) <= _NAME_BYTES


def _is_installed(name: str, folder: Path) -> bool:
    """Return whether a top-level module is found elsewhere than in a folder or the working directory."""
    if name in sys.stdlib_module_names:
        return True
    path = [each for each in sys.path if each and Path(each).resolve() != folder]
    for finder in sys.meta_path:
        found = finder.find_spec(name, path if finder is PathFinder else None)
        if found is None or found.origin is None:  # a folder without __init__.py: Python prefers any module to it
            continue
        if not Path(found.origin).resolve().is_relative_to(folder):
            return True
    return False


def _reached(
    starts: Iterable[tuple[str, Path]], territory: _Territory, base: Path, outer: Collection[str] = ()
) -> Sources:
    files: dict[str, tuple[Path, bytes | None]] = {}
    found = dict(starts)
    found |= {name: place for name in outer if (place := territory.find(name)) is not None}
    todo, known = list(found), {*found, *outer}
    while todo:
        name = todo.pop()
        path = found[name]
        data = None if path.is_dir() else path.read_bytes()
        files[name] = path, data
        package = name if data is None or path.name == _INIT else name.rpartition(".")[0]
        for imported in _absolute(_imports(data or b""), package):
            for each in _modules(imported, territory):
                if each not in known and (place := territory.find(each)) is not None:
                    found[each] = place
                    todo.append(each)
                known.add(each)
    return Sources({name: files[name] for name in found}, base)


def _modules(name: str, territory: _Territory) -> Iterator[str]:
    """Yield the modules that the import of a dotted name executes; a star stands for all of its package."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        yield ".".join(parts[:depth])
    if parts[-1] == "*" and (place := territory.find(parent := ".".join(parts[:-1]))) is not None:
        folder = place if place.is_dir() else place.parent
        yield from (f"{parent}.{file.stem}" for file in folder.glob("*.py") if place.is_dir() or place.name == _INIT)


def _absolute(imports: Iterable[tuple[int, str]], package: str) -> Iterator[str]:
    """Yield the names that are imported by a module of a package."""
    inside = package.split(".") if package else []
    for level, name in imports:
        if level <= len(inside) + 1:
            yield ".".join([*inside[: len(inside) + 1 - level], name] if level else [name])


@functools.lru_cache(maxsize=4096)
def _imports(source: bytes) -> tuple[tuple[int, str], ...]:
    """Return what a file imports, as relative levels and dotted names; nothing of a file that cannot be compiled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # its import raises that again, and is reported
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found += ((0, each.name) for each in node.names)
            case ast.ImportFrom():
                stem = f"{node.module}." if node.module else ""
                found += ((node.level, stem + each.name) for each in node.names)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _is_importer(node.func):
                found.append((len(name) - len(name.lstrip(".")), name.lstrip(".")))
    return tuple(found)


def _is_importer(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _IMPORTERS
    return False


# Execution of a single file and its folder's modules


def execute(sources: Sources, digest: str) -> ModuleType:
    """Import the first file, once per place and content."""
    main, (path, _) = next(iter(sources.files.items()))
    root = f"{PLUGINS}{digest}_{hashlib.sha256(bytes(path)).hexdigest()[:16]}"
    if root not in _finder.plugins:
        _finder.plugins[root] = sources
        package = ModuleType(root, "The modules of a plugin's folder.")
        package.__path__ = []
        sys.modules[root] = package  # dataclasses and pickle look up a class's module in sys.modules
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    return importlib.import_module(f"{root}.{main}")


class _PluginFinder:
    """Finds the modules of plugins, by the names of the packages made for them."""

    def __init__(self) -> None:
        self.plugins: dict[str, Sources] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of a plugin; `path` and `target` are not needed."""
        del path, target
        root, _, module = name.partition(".")
        file, data = self.plugins[root].files.get(module, (None, None)) if root in self.plugins else (None, None)
        if file is None:
            return None
        siblings = {each.partition(".")[0] for each in self.plugins[root].files}
        loader = _Loader(file, data or b"", root, frozenset(siblings.difference(OURS)))
        found = ModuleSpec(name, loader, origin=str(file), is_package=data is None or file.name == _INIT)
        found.has_location = data is not None  # sets __file__
        return found


_finder = _PluginFinder()


@dataclass(frozen=True)
class _Loader(importlib.abc.Loader):
    """Executes a module as it was read."""

    path: Path
    source: bytes
    root: str
    siblings: frozenset[str]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave that to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it, with its siblings' names replaced by those under which they are found."""
        tree = ast.parse(self.source, self.path)
        if self._imports_siblings():
            self._rename(tree)
        exec(compile(tree, self.path, "exec", dont_inherit=True), vars(module))

    def _imports_siblings(self) -> bool:
        return any(level == 0 and self._is_sibling(name) for level, name in _imports(self.source))

    def _is_sibling(self, name: str | None) -> bool:
        return name is not None and name.partition(".")[0] in self.siblings

    def _rename(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(level=0) if self._is_sibling(node.module):
                    node.module = f"{self.root}.{node.module}"
                case ast.Call(args=[ast.Constant(value=str(name)) as argument, *_]) if _is_importer(node.func):
                    if self._is_sibling(name):
                        argument.value = f"{self.root}.{name}"
                        if ast.unparse(node.func) == "__import__" and not node.keywords:
                            # or it would return the first of the names, which is not the plugin's
                            names = ast.List([ast.Constant(name)], ast.Load())
                            node.keywords.append(ast.keyword("fromlist", names))
            for block in ("body", "orelse", "finalbody"):
                if isinstance(statements := getattr(node, block, None), list):
                    statements[:] = (new for each in statements for new in self._renamed(each))
        ast.fix_missing_locations(tree)

    def _renamed(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Yield an import of siblings as imports from the package made for them; it binds the same names."""
        if not isinstance(statement, ast.Import) or not any(self._is_sibling(each.name) for each in statement.names):
            yield statement
            return
        for each in statement.names:
            first, *rest = each.name.split(".")
            parent, _, last = f"{self.root}.{each.name}".rpartition(".")
            if not self._is_sibling(first):
                yield _at(statement, ast.Import([each]))
            elif each.asname or not rest:
                yield _at(statement, ast.ImportFrom(parent, [ast.alias(last, each.asname)], 0))
            else:  # `import a.b` imports both and binds a
                yield _at(statement, ast.ImportFrom(parent, [ast.alias(last, first)], 0))
                yield _at(statement, ast.ImportFrom(self.root, [ast.alias(first)], 0))


def _at(place: ast.stmt, node: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(node, place))
