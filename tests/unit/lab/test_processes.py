import sys
from pathlib import Path

import pytest

from slaternet.errors import RunFailed
from slaternet_lab.games.processes import Child, end_all


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def child(log: Path, code: str) -> Child:
    speaker = Child("speaker", [sys.executable, "-c", code], log)
    await speaker.start(piped=True)
    return speaker


async def test_a_process_may_print_what_it_likes_before_and_after_its_announcement(log: Path) -> None:
    speaker = await child(log, "print('x' * 1_000_000); print('listening on here'); print('y' * 1_000_000)")

    assert await speaker.announced("listening on ", within=60) == "here"
    assert await speaker.ended == 0  # nothing blocks it
    await end_all([speaker])


async def test_a_process_that_stays_silent_is_named(log: Path) -> None:
    speaker = await child(log, "input()")

    with pytest.raises(RunFailed, match=r"^speaker has not said 'listening on ' within 0\.01 s; see its log "):
        await speaker.announced("listening on ", within=0.01)
    await end_all([speaker])


@pytest.mark.parametrize(
    ("code", "died"),
    [
        ("", False),
        *((f"import sys; sys.exit({number})", False) for number in (2, 3, 4, 5, 6)),
        ("import sys; sys.exit(130)", True),
        ("raise ValueError", True),
        ("import os; os.kill(os.getpid(), 9)", True),
    ],
)
async def test_who_says_that_it_cannot_go_on_has_not_died(code: str, died: bool, log: Path) -> None:
    speaker = await child(log, code)
    assert not speaker.died
    await speaker.ended

    assert speaker.died is died


async def test_the_last_words_of_a_process_are_told_as_plain_text(log: Path) -> None:
    words = "\x1b[2Jthe game\x9b is \u202eover"
    speaker = await child(log, f"import sys; sys.stderr.buffer.write({words.encode()!r}); print(); sys.exit(3)")
    await speaker.ended

    assert "; its last words: ?[2Jthe game? is ?over (all of its log: " in str(speaker.death())


async def test_a_process_that_dies_before_its_announcement_is_named(log: Path) -> None:
    speaker = await child(log, "import sys; print('cannot'); sys.exit(7)")

    with pytest.raises(RunFailed, match=r"^speaker ended with exit code 7; its last words: "):
        await speaker.announced("listening on ", within=60)
