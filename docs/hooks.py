"""What `make docs` adds to the pages of this folder: pages made from the code, and the documents of the project's root.

Pages made from the code cannot become wrong: the commands with their options, and the rules of algorithms, graphs,
gossip codes and built-in adversaries as their docstrings state them.
"""

import enum
import functools
import html
import inspect
import posixpath
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

DOCUMENTS = {
    "architecture.md": "ARCHITECTURE.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "wire.md": "proto/README.md",
    "javascript.md": "adversary/examples/node/README.md",
}
"""Pages of the site that stand elsewhere in the project, where a reader of the code looks for them."""

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the documents of the root."""
    files.append(File.generated(config, "commands.md", content=commands_page()))
    for name, source in DOCUMENTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=linked(text, posixpath.dirname(source))))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Fill in what a page takes from the code, and lead its links to pages of the site."""
    for mark, make in SECTIONS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return linked(markdown, "docs") if page.file.src_uri not in {*DOCUMENTS, "commands.md"} else markdown


def linked(text: str, folder: str) -> str:
    """Return a document of a folder with links to pages of the site; a link to a file that is no page becomes text."""
    pages = {source: name for name, source in DOCUMENTS.items()} | {"README.md": "index.md"}

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], posixpath.normpath(posixpath.join(folder, found[2])), found[3] or ""
        if target in pages:
            return f"[{label}]({pages[target]}{anchor})"
        if target.startswith("docs/"):
            return f"[{label}]({target.removeprefix('docs/')}{anchor})"
        return label if target in label else f"{label} (`{target}`)"

    return _LINK.sub(link, text)


# The commands


def commands_page() -> str:
    """Return the page about every command, from the definitions that `--help` prints."""
    from slaternet_lab.cli import app

    group: Any = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in group.commands.items():
        panels.setdefault(command.rich_help_panel or "Commands", []).append(_command(name, command))
    sections = (f"## {panel}\n\n" + "\n".join(commands) for panel, commands in panels.items())
    head = "# Commands\n\nMade from what `--help` prints. Commands that print results take `--json`.\n\n"
    return head + "\n".join(sections)


def _command(name: str, command: Any) -> str:  # noqa: ANN401  of click, which has no stable types
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join([f"slaternet {name}", "[OPTIONS]", *map(_metavar, arguments)])
    text = f"### slaternet {name}\n\n{_plain(command.help)}\n\n```text\n{usage}\n```\n"
    if arguments:
        rows = (f"| `{_metavar(each)}` | {_plain(each.help)} |" for each in arguments)
        text += "\n| argument | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    if options:
        text += "\n| option | variable | if absent | meaning |\n|---|---|---|---|\n"
        text += "\n".join(map(_option, options)) + "\n"
    return text + (f"\n{_plain(command.epilog)}\n" if command.epilog else "")


def _option(option: Any) -> str:  # noqa: ANN401
    names = ", ".join(option.opts) if option.is_flag else f"{', '.join(option.opts)} {_metavar(option)}"
    default = "" if option.default in (None, False, "", [], ()) else f"`{_plain(str(option.default))}`"
    return f"| `{names}` | {f'`{option.envvar}`' if option.envvar else ''} | {default} | {_plain(option.help)} |"


def _metavar(parameter: Any) -> str:  # noqa: ANN401
    if parameter.metavar:
        return str(parameter.metavar)
    if isinstance(parameter.default, enum.Enum):
        return "|".join(each.value for each in type(parameter.default))
    return "N" if isinstance(parameter.default, int) else str(parameter.name).upper()


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


# Docstrings with formulas


def rules(group: str, documented: Callable[[type], str]) -> str:
    """Return a section for each docstring behind the entry points of a group, with the names that lead there."""
    found: dict[str, dict[str, type]] = {}
    for entry in sorted(entry_points(group=group), key=lambda each: each.name):
        factory = entry.load()
        found.setdefault(documented(factory), {})[entry.name] = factory
    sections = ([_title(named), *paragraphs(text), *_schedules(named)] for text, named in found.items())
    return "\n\n".join("\n\n".join(section) for section in sections)


def _title(named: Iterable[str]) -> str:
    return f"### {', '.join(f'`{name}`' for name in named)}"


def _schedules(named: Mapping[str, type]) -> Iterator[str]:
    """Yield what the schedules of algorithms say of themselves, where a class names its own, as a list."""
    told: dict[tuple[str, str], list[str]] = {}
    for name, factory in named.items():
        for schedule, rule in getattr(factory, "schedules", {}).items():
            told.setdefault((schedule, " ".join((rule.__doc__ or "").split())), []).append(f"`{name}`")
    if told:
        yield "\n".join(f"- `{each}` of {', '.join(names)}: {_escaped(text)}" for (each, text), names in told.items())


def of_module(factory: type) -> str:
    """Return the docstring of the module that a class stands in."""
    return inspect.cleandoc(sys.modules[factory.__module__].__doc__ or "")


def of_class(factory: type) -> str:
    """Return the docstring of a class."""
    return inspect.cleandoc(factory.__doc__ or "")


def paragraphs(docstring: str) -> Iterator[str]:
    """Yield a docstring as Markdown: lines in columns or with an indent as they stand, everything else as prose."""
    for paragraph in docstring.split("\n\n"):
        lines = paragraph.splitlines()
        prose = list(_leading(lines))
        if prose:
            yield _escaped(" ".join(prose))
        if rest := lines[len(prose) :]:
            yield "```text\n" + textwrap.dedent("\n".join(rest)) + "\n```"


def _leading(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("    ") or re.search(r"\S {3,}\S", line):
            return
        yield line


def _escaped(text: str) -> str:
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(each if each.startswith("`") else _literal(each) for each in parts)


def _literal(text: str) -> str:
    return re.sub(r"([\\*_{}\[\]|])", r"\\\1", html.escape(text, quote=False))


SECTIONS: dict[str, Callable[[], str]] = {
    "<!-- rules of the algorithms -->": functools.partial(rules, "slaternet.algorithms", of_module),
    "<!-- rules of the graphs -->": functools.partial(rules, "slaternet.graphs", of_class),
    "<!-- rules of the codes -->": functools.partial(rules, "slaternet.codes", of_module),
    "<!-- rules of the adversaries -->": functools.partial(rules, "slaternet.adversaries", of_module),
}
"""What stands in a page where its section is made from docstrings."""
