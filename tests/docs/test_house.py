"""The rules of the house: rooms, layers, façades, size, one name for one class, plain words."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "proto/slaternet",
    "agent/slaternet_agent",
    "coordinator/slaternet_coordinator",
    "adversary/slaternet_adversary",
    "lab/slaternet_lab",
)
GENERATED, TEMPLATES = "v1", "templates"
MODULE_LINES, SOURCE_LINES = 400, 42_600
PHRASES = {
    "take down": r"\b(?:tak(?:e|es|en|ing)|took) (?:it |them |that )?down\b",
    "aloud": r"\baloud\b",
    "have done with": r"\b(?:have|has|had|having) done with\b",
    "whoever": r"\bwho(?:m|se)?(?:so)?ever\b",
}
"""What a docstring says in other words: record or log, explicitly, be finished with, the process (user, host) that."""

SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if GENERATED not in path.parts
}


def docstrings(text: str) -> list[tuple[int, str]]:
    """Return every docstring, also those under attributes, with its line; its words are one space apart."""
    return [
        (node.lineno, " ".join(node.value.value.split()))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def rejected(text: str) -> list[tuple[int, str]]:
    """Return the phrases that the docstrings of a module should not hold, with their lines."""
    return [
        (line, name)
        for line, docstring in docstrings(text)
        for name, pattern in PHRASES.items()
        if re.search(pattern, docstring, re.IGNORECASE)
    ]


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the names that more than one public class has, with the modules that define them."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path, text in sources.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path)
    return {name: paths for name, paths in modules.items() if len(paths) > 1}


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lines = {path: text.count("\n") for path, text in SOURCES.items()}

    assert {path: number for path, number in lines.items() if number > MODULE_LINES} == {}


def test_the_source_stays_within_its_size() -> None:
    assert sum(text.count("\n") for text in SOURCES.values()) <= SOURCE_LINES


def test_no_two_public_classes_share_a_name() -> None:
    ours = {path: text for path, text in SOURCES.items() if TEMPLATES not in path}  # those are copied to users

    assert shared_names(ours) == {}


def test_docstrings_are_in_plain_words() -> None:
    found = {f"{path}:{line}": name for path, text in SOURCES.items() for line, name in rejected(text)}

    assert found == {}


@pytest.mark.parametrize(
    ("docstring", "phrase"),
    [
        ("Take down what was bought.", "take down"),
        ("What is taken\n    down here.", "take down"),
        ("Say it aloud.", "aloud"),
        ("Wait until all have done with it.", "have done with"),
        ("Whoever asks is told.", "whoever"),
        ("Shut down, then take the seats.", None),
    ],
)
def test_the_check_of_phrases_sees_them(docstring: str, phrase: str | None) -> None:
    text = f'def function() -> None:\n    """{docstring}"""\n'

    assert [name for _, name in rejected(text)] == ([phrase] if phrase else [])
    assert [name for _, name in rejected(text.replace("def function() -> None:\n    ", "NUMBER = 1\n"))] == (
        [phrase] if phrase else []
    )


def test_the_check_of_names_sees_a_name_that_two_classes_have() -> None:
    sources = {"one.py": "class A: ...\nclass _B: ...\nclass C: ...", "two.py": "class A: ...\nclass _B: ..."}

    assert shared_names(sources) == {"A": ["one.py", "two.py"]}


def test_the_list_of_rooms_is_the_tree() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = page.split("## The rooms")[1].split("```")[1].strip("\n")
    listed, package = [], ""
    for line in block.splitlines():
        name = line.split()[0]
        package = package if line.startswith(" ") else name
        listed.append(package + (name if line.startswith(" ") else ""))
    tree = {path for package in PACKAGES for path in [ROOT / package, *(ROOT / package).rglob("*")] if path.is_dir()}
    hidden = {"__pycache__", "templates"}
    rooms = {f"{path.relative_to(ROOT)}/" for path in tree if not hidden & set(path.parts)}

    assert sorted(listed) == sorted(rooms)


PUBLIC = {
    "slaternet": [
        "LIMITS",
        "Agents",
        "Array",
        "BadSpec",
        "FeasibleSet",
        "SlaternetError",
        "Spec",
        "block_length",
        "checked",
        "exponential",
        "locate",
        "sigmoid",
        "softplus",
    ],
    "slaternet_agent": [
        "Algorithm",
        "AlgorithmGame",
        "Code",
        "Decision",
        "Directions",
        "Draws",
        "Feedback",
        "Gossip",
        "Layout",
        "Malformed",
        "Schedule",
        "Symbols",
        "ValueAndGradient",
        "Values",
        "forward",
        "forward_points",
        "unzigzag",
        "zigzag",
    ],
    "slaternet_adversary": ["Adversary", "CannotPlay", "Game", "History", "Round"],
    "slaternet_adversary.testing": ["CHECKS", "AdversaryContract", "Line", "Subject", "examine", "subject_of"],
    "slaternet_lab": ["Run", "compare", "examine", "load", "play", "regret", "resume", "simulate"],
}
"""What users may import; docs/what-may-change.md says what is promised of it."""


@pytest.mark.parametrize("package", PUBLIC)
def test_a_public_package_exports_these_names_and_no_others(package: str) -> None:
    module = importlib.import_module(package)

    assert module.__all__ == PUBLIC[package]
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_importing_a_public_package_imports_neither_numpy_nor_grpc() -> None:
    program = "import slaternet, slaternet_agent, slaternet_adversary, slaternet_lab, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert {"numpy", "grpc", "matplotlib"} & set(done.stdout.split()) == set()


PLANTED = {
    "asyncio": [
        "agent/slaternet_agent/engine",
        "coordinator/slaternet_coordinator/engine",
        "adversary/slaternet_adversary/engine",
    ],
    "os": ["agent/slaternet_agent/algorithms", "coordinator/slaternet_coordinator/graphs", "proto/slaternet/numerics"],
}


@pytest.mark.slow
def test_an_import_that_engines_or_mathematics_may_not_have_is_refused(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    planted = set()
    for module, folders in PLANTED.items():
        for path in (path for folder in folders for path in (tmp_path / folder).rglob("*.py")):
            path.write_text(path.read_text(encoding="utf-8") + f"\nimport {module}  # planted\n", encoding="utf-8")
            name = ".".join(path.relative_to(tmp_path).with_suffix("").parts[1:]).removesuffix(".__init__")
            planted.add((name, module))
    roots = os.pathsep.join(str(tmp_path / package.split("/")[0]) for package in PACKAGES)
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": roots}, capture_output=True, text=True
    )

    assert done.returncode != 0
    seen = set(re.findall(r"([\w.]+) ->\s+(asyncio|os)\b", done.stdout))
    assert planted <= seen, planted - seen
