import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slaternet.errors import RunFailed
from slaternet_lab.games.fork_server import SPAWN, ForkServer, fork_server
from slaternet_lab.games.processes import Child, end_all


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder on the path of all processes, with a module that executes its argument."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "speaker.py").write_text("import sys; exec(sys.argv[1])")
    return folder


@pytest.fixture(scope="module", params=["spawned", "forked"])
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[ForkServer | None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv(SPAWN, str(int(request.param == "spawned")))
        with fork_server() as server:
            yield server


async def child(log: Path, server: ForkServer | None, code: str) -> Child:
    speaker = Child("speaker", [sys.executable, "-P", "-m", "speaker", code, "--name", "ä"], log, server)
    await speaker.start(piped=True)
    return speaker


async def test_a_process_may_print_what_it_likes_before_and_after_its_announcement(
    log: Path, server: ForkServer | None
) -> None:
    code = "print('x' * 1_000_000); print('listening on here'); print('y' * 1_000_000)"
    speaker = await child(log, server, code)

    assert await speaker.announced("listening on ", within=60) == "here"
    assert await speaker.ended == 0  # nothing blocks it
    await end_all([speaker])


async def test_a_process_that_stays_silent_is_named(log: Path, server: ForkServer | None) -> None:
    speaker = await child(log, server, "input()")

    with pytest.raises(RunFailed, match=r"^speaker has not said 'listening on ' within 0\.01 s; see its log "):
        await speaker.announced("listening on ", within=0.01)
    await end_all([speaker])


@pytest.mark.parametrize(
    ("code", "ended", "died"),
    [
        ("", 0, False),
        *((f"sys.exit({number})", number, False) for number in (2, 3, 4, 5, 6)),
        ("sys.exit(130)", 130, True),
        ("raise ValueError", 1, True),
        ("import os; os._exit(9)", 9, True),
        ("import os; os.kill(os.getpid(), 9)", -9, True),
        ("import os; os.abort()", -6, True),
    ],
)
async def test_who_says_that_it_cannot_go_on_has_not_died(
    code: str, ended: int, died: bool, log: Path, server: ForkServer | None
) -> None:
    speaker = await child(log, server, code)
    assert not speaker.died
    await speaker.ended

    assert speaker.code == ended
    assert speaker.died is died


async def test_the_last_words_of_a_process_are_told_as_plain_text(log: Path, server: ForkServer | None) -> None:
    words = "\x1b[2Jthe game\x9b is \u202eover"
    speaker = await child(log, server, f"sys.stderr.buffer.write({words.encode()!r}); print(); sys.exit(3)")
    await speaker.ended

    assert "; its last words: ?[2Jthe game? is ?over (all of its log: " in str(speaker.death())


async def test_a_process_that_dies_before_its_announcement_is_named(log: Path, server: ForkServer | None) -> None:
    speaker = await child(log, server, "print('cannot'); sys.exit(7)")

    with pytest.raises(RunFailed, match=r"^speaker ended with exit code 7; its last words: "):
        await speaker.announced("listening on ", within=60)


async def test_a_process_finds_the_same_around_it_whether_spawned_or_forked(
    log: Path, folder: Path, server: ForkServer | None
) -> None:
    shown = "sys.argv[2:], sys.orig_argv[1:4], sys.flags.safe_path, __name__, os.getsid(0) == os.getpid(), os.getcwd()"
    titled = "open('/proc/self/cmdline').read().rstrip(chr(0)).split(chr(0))[1:4]"
    environment = "[os.environ.get(name) for name in ('SLATERNET_TETHERED', 'PYTHONUNBUFFERED', 'PYTHONPATH')]"
    files = "len(os.listdir('/proc/self/fd'))"
    speaker = await child(
        log, server, f"import json, os; print('it is', json.dumps([{shown}, {titled}, {environment}, {files}]))"
    )

    found = json.loads(await speaker.announced("it is ", within=60))

    command = ["-P", "-m", "speaker"]
    standard_and_the_folder_listed = 4
    assert found == [
        ["--name", "ä"],
        command,
        True,
        "__main__",
        True,
        str(Path.cwd()),
        command,
        ["1", "1", str(folder)],
        standard_and_the_folder_listed,
    ]
    assert await speaker.ended == 0


async def test_where_the_fork_server_is_killed_processes_live_on_and_others_are_spawned(log: Path) -> None:
    with ForkServer() as server:
        before = Child("before", [sys.executable, "-P", "-m", "code", "-q"], log, server)
        await before.start()
        server._process.kill()
        server._process.wait()
        after = Child("after", [sys.executable, "-P", "-m", "this"], log.with_name("after"), server)
        await after.start(piped=True)

        assert await after.announced("Beautiful is better ", within=60) == "than ugly."
        assert await after.ended == 0
        assert not before.ended.done()
        await end_all([before])
        assert before.died
