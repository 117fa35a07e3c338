"""The files that a target's code consists of."""

from pathlib import Path

import pytest

from slaternet.errors import BadSpec
from slaternet.spec.plugins import ADVERSARIES, files


def named(target: str) -> list[Path]:
    return files(ADVERSARIES, target, key="adversary.plugin")


def test_a_file_and_what_it_imports_of_its_folder(tmp_path: Path) -> None:
    main, helper = tmp_path / "mine.py", tmp_path / "helper.py"
    main.write_text("import helper\nimport json\n")
    helper.write_text("")

    assert set(named(f"{main}:Mine")) == {main.resolve(), helper.resolve()}


def test_a_file_that_does_not_exist_yet_is_named_all_the_same(tmp_path: Path) -> None:
    assert named(f"{tmp_path / 'mine.py'}:Mine") == [(tmp_path / "mine.py").resolve()]


@pytest.mark.parametrize("target", ["linear-regression", "grpc://127.0.0.1:7100", "session:Mine"])
def test_what_cannot_change_or_is_elsewhere_has_none(target: str) -> None:
    assert named(target) == []


def test_a_name_that_is_not_known_is_refused() -> None:
    with pytest.raises(BadSpec, match="is not known"):
        named("nobody")
