import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from slaternet.errors import Diverged
from slaternet.service.main import main
from slaternet_lab.cli import guarded


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def leave(work: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code of a program that does this work, and what it says on standard error."""
    with pytest.raises(SystemExit) as left:
        main("slaternet", work)
    assert isinstance(left.value.code, int)
    return left.value.code, capsys.readouterr().err


def fail(error: BaseException) -> None:
    raise error


def test_a_defect_is_a_sentence_with_the_path_of_its_log(capsys: pytest.CaptureFixture[str], scratch: Path) -> None:
    code, said = leave(lambda: fail(KeyError("a\nb")), capsys)

    (log,) = scratch.iterdir()
    assert (code, said.count("\n")) == (1, 1)
    assert said == f"slaternet: a defect of Slaternet: KeyError: 'a\\nb'; please report it with {log}\n"
    assert "Traceback" in log.read_text()
    assert "in fail" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_a_defect_is_said_even_where_its_log_cannot_be_written(
    capsys: pytest.CaptureFixture[str], scratch: Path
) -> None:
    scratch.rmdir()

    code, said = leave(lambda: fail(ValueError("x" * 10_000)), capsys)

    assert (code, said.count("\n"), len(said) < 500) == (1, 1, True)
    assert said.endswith("please report it, its log cannot be written: No such file or directory\n")


def test_what_the_user_can_correct_is_no_defect(capsys: pytest.CaptureFixture[str], scratch: Path) -> None:
    assert leave(lambda: fail(Diverged("two differ")), capsys) == (5, "slaternet: two differ\n")
    assert leave(lambda: (scratch / "absent").read_bytes(), capsys)[0] == 2
    code, said = leave(lambda: fail(MemoryError()), capsys)
    assert (code, said.startswith("slaternet: there is not enough memory")) == (2, True)
    assert list(scratch.iterdir()) == []


def test_a_command_that_meets_the_end_of_a_file_is_not_said_to_be_aborted(
    capsys: pytest.CaptureFixture[str], scratch: Path
) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(guarded(lambda: fail(EOFError("No data left in file"))))

    code, said = leave(lambda: app([]), capsys)

    (log,) = scratch.iterdir()
    assert (code, said.count("\n"), "Aborted" in said) == (1, 1, False)
    assert "No data left in file" in log.read_text()
