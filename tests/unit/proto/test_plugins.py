import hashlib
import pickle
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.spec.plugins import absolute, check_options, digest, load, plugin_edge

GROUP = "slaternet.graphs"


class Bowl:
    def __init__(self, game: object, *, budget: float, depth: float = 1.0) -> None: ...


class Anything:
    def __init__(self, game: object, **options: object) -> None: ...


def refusal(target: str) -> str:
    with pytest.raises(BadSpec) as refused:
        load(GROUP, target, key="graph.name")
    return str(refused.value)


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_target_gives_its_class_and_the_hash_of_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, "class Mine:\n    answer = 42\n")

    loaded = load(GROUP, f"{path}:Mine", key="graph.name")

    assert loaded.factory.answer == 42
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_executed_again_only_when_its_bytes_changed(tmp_path: Path) -> None:
    path = write(tmp_path, "class Mine:\n    answer = 1\n")
    first = load(GROUP, f"{path}:Mine", key="graph.name")
    same = load(GROUP, f"{path}:Mine", key="graph.name")
    write(tmp_path, "class Mine:\n    answer = 2\n")

    changed = load(GROUP, f"{path}:Mine", key="graph.name")

    assert same.factory is first.factory
    assert changed.factory.answer == 2
    assert changed.sha256 != first.sha256


def test_a_dataclass_in_a_file_finds_its_module(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Mine:\n    size: int = 3\n",
    )

    assert load(GROUP, f"{path}:Mine", key="graph.name").factory().size == 3


def test_a_module_target_gives_a_class_of_an_installed_package() -> None:
    loaded = load(GROUP, "slaternet.limits:Limits", key="graph.name")

    assert loaded.factory.__name__ == "Limits"
    assert len(bytes.fromhex(loaded.sha256)) == 32


def test_a_package_is_hashed_with_every_file_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one_of_two", "two_of_two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "class Mine: ...\n", "__init__.py")
    write(tmp_path / "two_of_two", "", "helper.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    one, two = (load(GROUP, f"{name}:Mine", key="graph.name").sha256 for name in ("one_of_two", "two_of_two"))

    assert one != two


def test_code_is_hashed_without_being_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "never_executed" / "inner").mkdir(parents=True)
    fatal = "raise SystemExit('executed')\n"
    file = write(tmp_path, fatal)
    for place in ("never_executed", "never_executed/inner"):
        write(tmp_path / place, fatal, "__init__.py")
        write(tmp_path / place, f"{fatal}# of {place}", "module.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    def hashed(where: object) -> str:
        return digest(GROUP, f"{where}:Mine", key="graph.name")

    assert hashed(file) == hashlib.sha256(fatal.encode()).hexdigest()
    inits = ["never_executed/__init__.py", "never_executed/inner/__init__.py"]  # what its import executes before
    for name, files in (("never_executed.module", inits[:1]), ("never_executed.inner.module", inits)):
        paths = sorted([*files, name.replace(".", "/") + ".py"])
        lines = (f"{hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()}  {path}\n" for path in paths)
        assert hashed(name) == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert len({hashed("never_executed"), hashed("never_executed.inner"), hashed("never_executed.module")}) == 3


@pytest.mark.parametrize("target", ["ring", "slaternet_coordinator.graphs:Graph", "builtins:dict"])
def test_a_hash_is_that_of_the_code_that_is_loaded(target: str) -> None:
    assert digest(GROUP, target, key="graph.name") == load(GROUP, target, key="graph.name").sha256


@pytest.mark.parametrize("target", ["no_such.module:Mine", "slaternet.suggestions.none:Mine", ".:Mine"])
def test_code_that_is_not_there_has_no_hash(target: str) -> None:
    with pytest.raises(BadSpec, match=r"^graph\.name names the module .* which is not installed; install its package"):
        digest(GROUP, target, key="graph.name")


def test_an_entry_point_gives_the_class_it_names() -> None:
    assert load(GROUP, "ring", key="graph.name").factory.__name__ == "Ring"


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    assert refusal("rign").startswith('graph.name = "rign" is not known; did you mean ring?')


def test_a_name_like_no_other_is_answered_with_all_of_them() -> None:
    known = sorted(entry.name for entry in entry_points(group="slaternet.graphs"))

    assert f"choose from {', '.join(known)} (your own:" in refusal("zzzzzzzz")


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no.py"

    assert refusal(f"{path}:Mine") == f"graph.name names the file {path}, which does not exist; correct the path"


def test_a_module_that_is_not_installed_is_named() -> None:
    sentence = refusal("no_such_package.module:Mine")

    assert sentence.startswith("graph.name names the module no_such_package.module, which is not installed;")


def test_a_class_that_does_not_exist_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    path = write(tmp_path, "class Mine: ...\n")

    assert refusal(f"{path}:Mien") == f"graph.name names Mien, which is not a class of {path}; did you mean Mine?"


@pytest.mark.parametrize("target", [":Mine", "file.py:"])
def test_half_a_target_is_refused(target: str) -> None:
    assert 'must name a class as "path/file.py:Class"' in refusal(target)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "x = 1\nraise RuntimeError('boom')\n",
            "RuntimeError: boom, at {path}:2 `raise RuntimeError('boom')`; correct its code",
        ),
        ("x = 1\n\ndef (:\n", "SyntaxError: invalid syntax, at {path}:3 `def (:`; correct its code"),
        (
            "import no_such_module\n",
            "No module named 'no_such_module', at {path}:1 `import no_such_module`; install no_such_module, or",
        ),
    ],
)
def test_code_that_fails_on_import_is_reported_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    path = write(tmp_path, text)

    with pytest.raises(PluginFailed) as failed:
        load(GROUP, f"{path}:Mine", key="graph.name")

    assert reason.format(path=path) in str(failed.value)


def test_a_package_that_lacks_something_itself_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "import no_such_module\n", "lacks_something.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(PluginFailed, match="no_such_module"):
        load(GROUP, "lacks_something:Mine", key="graph.name")


def test_only_relative_file_targets_are_made_absolute(tmp_path: Path) -> None:
    assert absolute("sub/../mine.py:Mine", tmp_path) == f"{tmp_path.resolve()}/mine.py:Mine"
    assert absolute("/else/mine.py:Mine", tmp_path) == "/else/mine.py:Mine"
    assert absolute("pkg.module:Mine", tmp_path) == "pkg.module:Mine"
    assert absolute("ring", tmp_path) == "ring"
    assert absolute("grpc://localhost:5000", tmp_path) == "grpc://localhost:5000"


def test_options_are_compared_with_the_constructor() -> None:
    check_options(Bowl, {"budget": 1.0}, key="adversary.options", given=1)
    check_options(Anything, {"whatever": 1}, key="adversary.options", given=1)
    with pytest.raises(BadSpec, match=r"^adversary\.options\.budgt is not an option of Bowl; did you mean budget\?$"):
        check_options(Bowl, {"budgt": 1.0}, key="adversary.options", given=1)
    with pytest.raises(BadSpec, match=r"^adversary\.options\.budget is missing; Bowl needs it$"):
        check_options(Bowl, {}, key="adversary.options", given=1)


def test_what_we_supply_ourselves_is_not_an_option() -> None:
    with pytest.raises(BadSpec, match=r"adversary\.options\.game is not an option"):
        check_options(Bowl, {"game": 1, "budget": 1.0}, key="adversary.options", given=1)


def test_what_a_plugin_raises_is_told_with_the_plugin_the_place_and_the_line() -> None:
    rounds = iter((3, 4))
    with pytest.raises(PluginFailed) as failed, plugin_edge("graph", "mine", "matrix", lambda: next(rounds)):
        raise KeyError("lost")

    line = failed.value.__cause__.__traceback__.tb_lineno  # type: ignore[union-attr]
    what = f"""KeyError: 'lost', at {__file__}:{line} `raise KeyError("lost")`; correct its code"""
    assert str(failed.value) == f"the graph mine failed: matrix of round 3 raised {what}"
    assert failed.value.fault is not None
    assert failed.value.fault.raised == what
    assert pickle.loads(pickle.dumps(failed.value)).fault == failed.value.fault


class Panic(BaseException):
    """As compiled libraries raise it; it has no text."""

    def __str__(self) -> str:
        raise RuntimeError("not in words")


def test_a_panic_of_a_library_is_a_failure_of_the_plugin_and_ctrl_c_is_none() -> None:
    with (
        pytest.raises(PluginFailed, match=r"start raised Panic, at .*`raise Panic`"),
        plugin_edge("algorithm", "a", "start"),
    ):
        raise Panic
    with pytest.raises(KeyboardInterrupt), plugin_edge("algorithm", "a", "start"):
        raise KeyboardInterrupt


def test_a_plugin_that_exits_has_failed_and_our_own_errors_pass() -> None:
    with pytest.raises(PluginFailed, match=r"start raised SystemExit: 3, at "), plugin_edge("algorithm", "a", "start"):
        raise SystemExit(3)
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing$"), plugin_edge("algorithm", "a", "start"):
        raise BadSpec("run.rounds is missing")
    with pytest.raises(PluginFailed), plugin_edge("algorithm", "a", "start", passing=(PluginFailed,)):
        raise BadSpec("no fault of the spec")
