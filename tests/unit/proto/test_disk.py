import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slaternet.errors import BadSpec, RunFailed, SlaternetError
from slaternet.storage import disk
from slaternet.storage.disk import DISK, read_file, refusal, replace_file, replacing


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Make the kernel cut writes short, as a full disk does; the test needs no disk of its own for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (errno.ENOSPC, RunFailed, "nothing acknowledged is lost: free space and start again"),
        (errno.EDQUOT, RunFailed, "nothing acknowledged is lost: free space and start again"),
        (errno.EIO, RunFailed, "see to its disk and start again"),
        (errno.EACCES, BadSpec, "make it accessible, or choose another folder"),
        (errno.EROFS, BadSpec, "make it accessible, or choose another folder"),
        (errno.ENOENT, BadSpec, "put it back, or begin the whole game anew"),
    ],
)
def test_what_a_file_system_refuses_is_a_sentence_with_path_and_remedy(
    code: int, kind: type[SlaternetError], remedy: str
) -> None:
    said = refusal(Path("state/journal"), OSError(code, os.strerror(code)))

    assert type(said) is kind
    assert str(said).partition("state/journal")[1]
    assert str(said).endswith(remedy)


def test_a_file_is_appended_to_read_and_cut(tmp_path: Path) -> None:
    file = DISK.create(tmp_path / "file")
    file.append(b"abc")
    file.append(memoryview(b"defg"))
    file.sync()

    assert (file.size(), file.read(0, 3), file.read(5, 100), file.read(9, 1)) == (7, b"abc", b"fg", b"")
    file.truncate(4)
    file.append(b"!")
    file.close()
    again = DISK.open(tmp_path / "file", write=True)
    assert again.read(0, 100) == b"abcd!"
    again.close()


def test_bytes_are_counted_where_a_buffer_has_longer_items(tmp_path: Path) -> None:
    file = DISK.create(tmp_path / "file")

    file.append(memoryview(bytes(range(16))).cast("d"))

    assert file.read(0, 100) == bytes(range(16))
    file.close()


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with no_file_longer_than(1000):
        file = DISK.create(tmp_path / "file")
        file.append(bytes(900))
        with pytest.raises(RunFailed, match=r"no room for .*file: File too large"):
            file.append(bytes(900))
    assert file.size() == 1000
    file.close()


def test_paths_that_cannot_be_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(BadSpec, match=r"file/below cannot be used: Not a directory"):
        DISK.make_folder(tmp_path / "file" / "below")
    with pytest.raises(BadSpec, match="cannot be used: Is a directory"):
        DISK.open(tmp_path, write=True)
    with pytest.raises(BadSpec, match="absent is missing"):
        DISK.remove(tmp_path / "absent")


def test_a_folder_is_made_with_those_it_stands_in_and_lists_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert DISK.names(folder) == []

    for _ in range(2):
        DISK.make_folder(folder)
    for name in ("2", "10", "1"):
        DISK.create(folder / name).close()

    assert DISK.names(folder) == ["1", "10", "2"]


def test_what_shall_survive_a_loss_of_power_is_asked_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    for module, name in ((disk, "_sync"), (os, "fsync")):
        monkeypatch.setattr(module, name, lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}")))
    folder = tmp_path.resolve() / "a" / "b"

    DISK.make_folder(folder)
    replace_file(folder / "file", b"content")

    assert synced == [str(each) for each in (folder.parents[1], folder.parent, folder / "file.draft", folder)]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    with no_file_longer_than(1000), pytest.raises(RunFailed, match="no room"):
        replace_file(path, bytes(600), bytes(600))
    assert (path.read_bytes(), DISK.names(tmp_path)) == (b"old", ["file"])

    replace_file(path, b"n", b"ew")
    assert (path.read_bytes(), DISK.names(tmp_path)) == (b"new", ["file"])


def test_a_file_that_a_library_writes_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old ", b"content")

    with suppress(ValueError), replacing(path) as draft:
        draft.write(b"half")
        raise ValueError("enough")

    assert (read_file(path), DISK.names(tmp_path)) == (b"old content", ["file"])
    with replacing(path) as draft:
        draft.write(b"new")
    assert (read_file(path), DISK.names(tmp_path)) == (b"new", ["file"])


def test_a_file_is_locked_once_until_it_is_closed(tmp_path: Path) -> None:
    lock = DISK.lock(tmp_path / "lock")
    assert lock is not None
    assert DISK.lock(tmp_path / "lock") is None

    for _ in range(2):
        lock.close()

    again = DISK.lock(tmp_path / "lock")
    assert again is not None
    again.close()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.write_bytes(b"as it was")
    return path


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_file_that_is_written_anew_replaces_a_link_and_leaves_what_it_leads_to(
    link: Callable[[Path, Path], None], outside: Path, tmp_path: Path
) -> None:
    names = {"created": "created", "replaced": "replaced.draft", "library": "library.draft"}
    for name in {*names, *names.values()}:
        link(tmp_path / name, outside)

    DISK.create(tmp_path / "created").close()
    replace_file(tmp_path / "replaced", b"new")
    with replacing(tmp_path / "library") as file:
        file.write(b"new")

    assert outside.read_bytes() == b"as it was"
    assert not any((tmp_path / name).is_symlink() for name in names)
    assert [(tmp_path / name).read_bytes() for name in names] == [b"", b"new", b"new"]


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_file_that_grows_or_locks_must_not_be_a_link(
    link: Callable[[Path, Path], None], outside: Path, tmp_path: Path
) -> None:
    link(tmp_path / "link", outside)

    for use in (lambda path: DISK.open(path, write=True), DISK.lock):
        with pytest.raises(BadSpec, match="link is a link, and nothing is written through links"):
            use(tmp_path / "link")
    assert read_file(tmp_path / "link") == b"as it was"


def test_devices_and_pipes_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")

    for name in ("pipe", "zero"):
        with pytest.raises(BadSpec, match=f"{name} is not an ordinary file; put one in its place"):
            read_file(tmp_path / name)


def test_a_file_that_is_longer_than_allowed_is_not_read(tmp_path: Path) -> None:
    os.truncate(DISK.create(tmp_path / "file").descriptor, 1 << 40)  # type: ignore[attr-defined]

    with pytest.raises(BadSpec, match="file is longer than the 4096 bytes that such a file may have"):
        read_file(tmp_path / "file", most=4096)


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "device"
    os.mkfifo(path)

    with pytest.raises(OSError, match="It is no ordinary file") as refused, replacing(path):
        pass

    assert refused.value.filename == str(path)
    assert path.is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["device"]
