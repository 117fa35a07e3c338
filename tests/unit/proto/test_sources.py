"""The hash of a plugin covers what it imports from its folder or package, and that is what is executed."""

import hashlib
import os
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.spec.plugins import Loaded, digest, load
from slaternet.spec.sources import of_module
from slaternet_coordinator import graphs
from slaternet_coordinator.graphs.fixed import Ring

GROUP, KEY = "slaternet.graphs", "graph.name"
MINE = "class Mine:\n    def answer(self):\n        {use}\n        return {value}\n"


def write(folder: Path, **files: str) -> Path:
    """Write files by the names of their modules, dots for folders, and return the first."""
    paths = [folder / (name.replace(".", "/") + ".py") for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths[0]


def loaded(where: object) -> Loaded:
    found = load(GROUP, f"{where}:Mine", key=KEY)
    assert found.sha256 == digest(GROUP, f"{where}:Mine", key=KEY)
    return found


def answer(found: Loaded) -> Any:
    return found.factory().answer()


@pytest.mark.parametrize(
    ("head", "use", "value"),
    [
        ("import helper", "", "helper.NUMBER"),
        ("import os, helper as h", "", "h.NUMBER"),
        ("from helper import NUMBER", "", "NUMBER"),
        ("from helper import *", "", "NUMBER"),
        ("from . import helper", "", "helper.NUMBER"),
        ("from .helper import NUMBER as n", "", "n"),
        ("", "import helper", "helper.NUMBER"),
        ("", "from helper import NUMBER", "NUMBER"),
        ("try:\n    import helper\nexcept ImportError:\n    helper = None", "", "helper.NUMBER"),
        ("import importlib", "", "importlib.import_module('helper').NUMBER"),
        ("", "", "__import__('helper').NUMBER"),
        ("from importlib import import_module", "", "import_module('.helper', __package__).NUMBER"),
        ("import between", "", "between.helper.NUMBER"),
        ("import tools.numbers", "", "tools.numbers.NUMBER"),
        ("import tools.numbers as n", "", "n.NUMBER"),
        ("from tools import numbers", "", "numbers.NUMBER"),
        ("from tools import *", "", "numbers.NUMBER"),
        ("from bare.deep import numbers", "", "numbers.NUMBER"),
        ("import bare.deep.numbers", "", "bare.deep.numbers.NUMBER"),
    ],
)
def test_a_file_gets_its_folder_s_modules_and_their_change_changes_code_and_hash(
    head: str, use: str, value: str, tmp_path: Path
) -> None:
    mine = write(
        tmp_path,
        mine=f"{head}\n\n{MINE.format(use=use, value=value)}",
        between="import helper\n",
        unrelated="",
        **{"tools.__init__": "__all__ = ['numbers']\n", "tools.numbers": "from ..helper import NUMBER\n"},
        **{"bare.deep.numbers": "import helper\n\nNUMBER = helper.NUMBER\n"},
    )
    found, answers = [], []
    for number in (1, 2):
        write(tmp_path, helper=f"NUMBER = {number}\n", unrelated=f"# {number}")
        found.append(loaded(mine))
        write(tmp_path, helper="NUMBER = 3\n")  # what was read is what is executed, also by imports in functions
        answers.append(answer(found[-1]))
        write(tmp_path, helper=f"NUMBER = {number}\n", unrelated="raise SystemExit")
        assert loaded(mine) == found[-1]

    assert answers == [1, 2]
    assert found[0].sha256 != found[1].sha256
    assert "helper" not in sys.modules


def test_the_hash_of_several_files_is_that_of_the_lines_of_sha256sum(tmp_path: Path) -> None:
    mine = write(tmp_path, mine="import tools.a\nclass Mine: ...\n", **{"tools.a": "", "tools.__init__": "X = 1\n"})
    names = ("mine.py", "tools/__init__.py", "tools/a.py")

    lines = "".join(f"{hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}  {name}\n" for name in names)

    assert loaded(mine).sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_two_folders_with_a_helper_of_one_name_get_their_own(tmp_path: Path) -> None:
    lazy = MINE.format(use="import helper", value="helper.NUMBER")
    one, two = (write(tmp_path / name, mine=lazy, helper=f"NUMBER = '{name}'\n") for name in ("one", "two"))
    write(tmp_path / "three", mine=lazy, helper="NUMBER = 'one'\n")

    first, second, copy = loaded(one), loaded(two), loaded(tmp_path / "three" / "mine.py")

    assert [answer(each) for each in (second, first, copy)] == ["two", "one", "one"]
    assert first.sha256 == copy.sha256 != second.sha256
    assert sys.modules[copy.factory.__module__].__file__ == str(tmp_path / "three" / "mine.py")


def test_modules_that_import_each_other_are_one_plugin(tmp_path: Path) -> None:
    mine = write(tmp_path, mine=f"import helper\n{MINE.format(use='', value='helper.back()')}", helper=HELPER_BACK)

    assert answer(loaded(mine)) is True


HELPER_BACK = """
import mine


def back():
    return mine.helper.mine is mine
"""


def test_a_file_beside_a_plugin_never_takes_the_place_of_an_installed_module(tmp_path: Path) -> None:
    fatal = "raise SystemExit('executed')\n"
    text = "import json, numpy, slaternet\n" + MINE.format(use="", value="json.dumps([numpy.pi > 3])")
    mine = write(tmp_path, mine=text, json=fatal, numpy=fatal, slaternet=fatal)

    assert answer(loaded(mine)) == "[true]"
    assert loaded(mine).sha256 == hashlib.sha256(mine.read_bytes()).hexdigest()


def test_a_folder_elsewhere_never_takes_the_place_of_a_file_beside_a_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_data").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = "from acme_data import NUMBER\n\n" + MINE.format(use="", value="NUMBER")

    assert answer(loaded(write(tmp_path / "deep", mine=lines, acme_data="NUMBER = 7\n"))) == 7


def test_a_file_of_our_own_packages_is_a_plugin_of_their_classes() -> None:
    path = Path(graphs.__file__).parent / "fixed.py"

    ring = load(GROUP, f"{path}:Ring", key=KEY).factory

    assert ring.__mro__[-2] in Ring.__mro__


def test_a_module_whose_name_is_computed_is_not_executed(tmp_path: Path) -> None:
    mine = write(tmp_path, mine="__import__('help' + 'er')\nclass Mine: ...\n", helper="")

    with pytest.raises(PluginFailed, match=r"ModuleNotFoundError: No module named 'helper', at /.*/mine\.py:1 "):
        loaded(mine)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\ndef (:\n", r"SyntaxError: .*, at /.*/helper\.py:2 `def \(:`"),
        ("x = '\0'\n", r"source code string cannot contain null bytes, at /.*/mine\.py:1 "),
        ("x = " + "(" * 5000 + ")" * 5000, "too many nested parentheses"),
        (
            "import beyond\n",
            r"No module named 'beyond', at /.*/helper\.py:1 `import beyond`; install beyond, or correct the import$",
        ),
        ("from ... import mine\n", r"ImportError: attempted relative import beyond .*, at /.*/helper\.py:1 "),
    ],
)
def test_a_helper_that_cannot_be_imported_is_named(text: str, why: str, tmp_path: Path) -> None:
    mine = write(tmp_path, mine="import helper\nclass Mine: ...\n", helper=text)

    assert digest(GROUP, f"{mine}:Mine", key=KEY)
    with pytest.raises(PluginFailed, match=why):
        load(GROUP, f"{mine}:Mine", key=KEY)


def test_a_helper_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = write(tmp_path, mine="import helper\nclass Mine: ...\n", helper="")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)  # nothing is unreadable for root

    with pytest.raises(
        BadSpec, match=r"graph\.name needs the file .*mine\.py, which cannot be read: Permission denied"
    ):
        digest(GROUP, f"{mine}:Mine", key=KEY)


def test_sources_in_other_encodings_and_behind_links_count_as_they_are(tmp_path: Path) -> None:
    mine = write(tmp_path / "a", mine=f"import helper\n{MINE.format(use='', value='helper.NAME')}")
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nNAME = 'Lagrangé'\n".encode("latin-1"))
    (tmp_path / "a" / "helper.py").symlink_to(tmp_path / "latin.py")
    before = loaded(mine)

    (tmp_path / "latin.py").write_text("NAME = 'Slater'\n")

    assert answer(before) == "Lagrangé"
    assert answer(loaded(mine)) == "Slater"


def test_what_is_not_imported_is_not_opened(tmp_path: Path) -> None:
    mine = write(tmp_path, mine="import absent, gone, data\nclass Mine: ...\n")
    os.mkfifo(tmp_path / "pipe.py")  # who opens it waits for ever
    os.mkfifo(tmp_path / "absent.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "data").mkdir()
    hashed: list[str] = []

    thread = threading.Thread(target=lambda: hashed.append(digest(GROUP, f"{mine}:Mine", key=KEY)), daemon=True)
    thread.start()
    thread.join(30)

    assert hashed == [hashlib.sha256(mine.read_bytes()).hexdigest()]


@pytest.mark.parametrize(
    ("where", "helper"),
    [
        ("acme_one.mine", "acme_one.helper"),
        ("acme_one.deep.mine", "acme_one.helper"),
        ("acme_one.deep.mine", "acme_one.__init__"),
        ("acme_bare.mine", "acme_bare.helper"),
        ("acme_alone", "acme_beside"),
    ],
)
def test_a_module_s_hash_covers_what_it_imports_of_its_package_or_folder(
    where: str, helper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = MINE.format(use="from {0} import helper", value="helper.NUMBER")
    files = {
        "acme_one.__init__": "",
        "acme_one.mine": lazy.format("acme_one"),
        "acme_one.deep.__init__": "",
        "acme_one.deep.mine": lazy.format(".."),
        "acme_bare.mine": lazy.format("."),
        "acme_alone": MINE.format(use="import acme_beside", value="acme_beside.NUMBER"),
        "acme_one.helper": "NUMBER = 1\n",
        "acme_bare.helper": "NUMBER = 1\n",
        "acme_beside": "NUMBER = 1\n",
        "acme_one.unrelated": "",
    }
    write(tmp_path, **files)
    monkeypatch.syspath_prepend(str(tmp_path))
    target = f"{where}:Mine"

    before = digest(GROUP, target, key=KEY)
    write(tmp_path, **{"acme_one.unrelated": "# changed"})
    same = digest(GROUP, target, key=KEY)
    write(tmp_path, **{helper: "NUMBER = 2\n"})
    after = digest(GROUP, target, key=KEY)

    assert before == same != after


@pytest.mark.parametrize("regular", [True, False])
def test_a_file_of_a_package_gets_the_package_s_modules_by_their_full_names(
    regular: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"acme_around_{regular}"
    lazy = MINE.format(use=f"from {name}.other import helper", value="helper.NUMBER")
    mine = write(tmp_path, **{f"{name}.deep.mine": lazy}, **({f"{name}.__init__": ""} if regular else {}))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for number in (1, 2):
        write(tmp_path, **{f"{name}.other.helper": f"NUMBER = {number}\n"})
        found.append(loaded(mine))

    assert [answer(each) for each in found] == [1, 2]
    assert found[0].sha256 != found[1].sha256


def test_a_module_that_has_changed_since_its_import_is_refused_and_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{"acme_changing.__init__": "", "acme_changing.mine": "class Mine: ...\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded("acme_changing.mine")

    write(tmp_path, **{"acme_changing.__init__": "# changed"})

    with pytest.raises(
        BadSpec, match=r"acme_changing\.mine, which has changed since it was imported; start Python again"
    ):
        load(GROUP, "acme_changing.mine:Mine", key=KEY)


def test_a_built_in_s_hash_is_of_its_release_and_of_nothing_that_it_does_not_import() -> None:
    folder = Path(__file__).parents[3] / "agent/slaternet_agent"
    name = "slaternet_agent.algorithms.zhang2024"

    reached = of_module(name, folder / "algorithms/zhang2024.py", [str(folder)], package=False)

    text = f"slaternet {version('slaternet')} {reached.sha256()}"
    assert digest("slaternet.algorithms", "zhang2024", key=KEY) == hashlib.sha256(text.encode()).hexdigest()
    assert {"slaternet_agent.algorithms.schedules", "slaternet_agent.algorithms.estimators"} <= set(reached.files)
    assert not {"slaternet_agent.algorithms.yi2023", "slaternet_agent.engine.host"} & set(reached.files)
