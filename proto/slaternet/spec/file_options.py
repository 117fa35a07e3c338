"""The options of a class that name files: parameters of its constructor with the hint `Path`.

Found without executing anything, as the files of a plugin's code are: the paths of a spec are resolved, and the data
that they name is hashed, in processes that do not load the plugin. A hint is seen where it is pathlib's Path, also in
`Path | None`, Optional, Annotated or a name of the module for one of these, and the constructor is the class's own or
that of a base class in the files of the plugin.
"""

import ast
from collections.abc import Iterator, Mapping

from slaternet.spec.sources import Sources

_PATH = ("pathlib.Path", "pydantic.FilePath")
_WRAPPERS = ("Optional", "Union", "Annotated")


def file_options(sources: Sources, name: str) -> tuple[str, ...]:
    """Return the names of the options that the class `name` of the first file declares as files."""
    modules = {
        module: _Module(data, module.split(".") if path.name == "__init__.py" else module.split(".")[:-1])
        for module, (path, data) in sources.files.items()
        if data is not None
    }
    first = next(iter(sources.files))
    try:
        return tuple(dict.fromkeys(_of_class(modules, first, name)))
    except RecursionError:  # a name that stands for itself, or a class for its base: its import raises
        return ()


class _Module:
    """The names that a module binds at its outermost level, or imports anywhere."""

    def __init__(self, source: bytes, package: list[str]) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.imported: dict[str, str] = {}
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # its import raises that again, and is reported
        for node in tree.body:
            match node:
                case ast.ClassDef():
                    self.classes[node.name] = node
                case ast.Assign(targets=[ast.Name(id=alias)]) | ast.AnnAssign(target=ast.Name(id=alias)) if node.value:
                    self.aliases[alias] = node.value
        for inner in ast.walk(tree):
            match inner:
                case ast.Import():
                    self.imported |= {each.asname or each.name: each.name for each in inner.names}
                case ast.ImportFrom():
                    outer = package[: len(package) + 1 - inner.level] if inner.level else []
                    stem = [*outer, *filter(None, [inner.module])]
                    self.imported |= {each.asname or each.name: ".".join((*stem, each.name)) for each in inner.names}

    def full_name(self, expression: ast.expr) -> str:
        """Return the name of what a dotted name stands for, "pathlib.Path"; its own where it is not imported."""
        text = ast.unparse(expression)
        first, dot, rest = text.partition(".")
        return f"{self.imported.get(first, first)}{dot}{rest}"

    def is_path(self, hint: ast.expr | None) -> bool:
        """Whether a hint is Path, alone or in a union."""
        match hint:
            case ast.Constant(value=str(text)):
                try:
                    return self.is_path(ast.parse(text, mode="eval").body)
                except SyntaxError:
                    return False
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.is_path(left) or self.is_path(right)
            case ast.Subscript(value=outer, slice=inner):
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                kind = ast.unparse(outer).rpartition(".")[2]
                return kind in _WRAPPERS and any(map(self.is_path, parts[:1] if kind == "Annotated" else parts))
            case ast.Name(id=name) if name in self.aliases:
                return self.is_path(self.aliases[name])
            case ast.Name() | ast.Attribute():
                return self.full_name(hint) in _PATH
        return False


def _of_class(modules: Mapping[str, _Module], where: str, name: str) -> Iterator[str]:
    """Yield the options of a class, of its constructor or of those that it inherits or passes others on to."""
    module = modules.get(where)
    if module is None:
        return
    if name not in module.classes:
        outer, _, inner = module.imported.get(name, "").rpartition(".")
        yield from _of_class(modules, outer, inner)
        return
    body = module.classes[name].body
    constructor = next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if constructor is not None:
        taken = constructor.args
        yield from (each.arg for each in (*taken.args, *taken.kwonlyargs) if module.is_path(each.annotation))
    if constructor is None or constructor.args.kwarg is not None:
        for base in module.classes[name].bases:
            outer, _, inner = module.full_name(base).rpartition(".")
            yield from _of_class(modules, outer or where, inner)
