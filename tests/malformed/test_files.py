"""Run folders, specs and data that somebody has damaged or forged: one sentence, little memory, nothing outside."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.malformed import file_corpus
from tests.malformed.file_cases import Case, make_sound

from slaternet.numerics.npz import Archive

Command = Callable[..., file_corpus.Outcome]


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessPoolExecutor]:
    """Start a process that has imported everything, in which commands are forked."""
    with ProcessPoolExecutor(1, get_context("spawn"), file_corpus.preload) as pool:
        yield pool


@pytest.fixture
def slaternet(worker: ProcessPoolExecutor, here: Path) -> Command:
    """Return a function that runs the command in the folder `here`."""

    def run(*words: object) -> file_corpus.Outcome:
        return worker.submit(file_corpus.run_command, here, [str(each) for each in words]).result()

    return run


def assert_refused(outcome: file_corpus.Outcome, *words: str) -> None:
    """Require one sentence on standard error that holds the words, exit code 2, and less than 1 GB of memory."""
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome
    assert outcome.err.startswith("slaternet: ")
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err
    assert outcome.memory < file_corpus.MEMORY


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what all cases are copies of, once."""
    place = tmp_path_factory.mktemp("sound")
    make_sound(place)
    return place


@pytest.fixture
def here(sound: Path, tmp_path: Path) -> Path:
    """Copy the sound specs and runs to a folder."""
    shutil.copytree(sound, tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.slow
def test_a_hundred_cases_of_the_corpus_are_answered_or_refused_in_a_sentence(sound: Path) -> None:
    verdicts = list(file_corpus.judge(100, 1, sound))

    assert [str(each) for each in verdicts if each.faults] == []
    codes = [each.outcome.code for each in verdicts]
    assert (len(codes), min(codes.count(0), codes.count(2)) > 20) == (100, True)  # neither was hardly tried


def test_the_same_seed_spoils_the_same_file_in_the_same_way(sound: Path, tmp_path: Path) -> None:
    one, other, different = (
        [Case(seed, number).prepare(sound, tmp_path / f"{turn}-{number}") for number in range(8)]
        for turn, seed in enumerate((1, 1, 2))
    )

    assert one == other
    assert one != different


def packed(array: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a decisions.npz with these bytes in the place of its array."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("x.npy", array)
    return out.getvalue()


def shaped(shape: tuple[int, ...]) -> bytes:
    """Return a decisions.npz whose only array claims a shape."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return packed(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(800))


def encrypted(archive: bytes) -> bytes:
    """Return a zip file whose directory says that its members are encrypted."""
    flags = archive.rindex(b"PK\x01\x02") + 8
    return archive[:flags] + b"\x01" + archive[flags + 1 :]


def without(column: str) -> Callable[[bytes], bytes]:
    return lambda table: table.replace(column.encode(), b"x" * len(column), 1)


def test_a_head_that_claims_to_be_long_is_not_read() -> None:
    array = b"\x93NUMPY\x02\x00" + (10**9).to_bytes(4, "little") + bytes(1 << 25)
    file = BytesIO(packed(array, zipfile.ZIP_DEFLATED))
    del array
    tracemalloc.start()
    try:
        with Archive(file) as archive, pytest.raises(ValueError, match="x has a head of 1000000000 bytes"):
            archive.head("x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 22


@pytest.mark.parametrize(
    ("file", "content", "commands"),
    [
        ("summary.json", b"[]", ("show", "audit")),
        ("summary.json", b"[" * 5000 + b"]" * 5000, ("show", "show --json")),
        ("summary.json", b'{"agents": ' + b"9" * 5000 + b"}", ("show",)),
        ("metrics.csv", bytes(range(256)) * 40, ("plot", "export", "diff", "regret", "audit")),
        ("metrics.csv", b"x" * 10_000_000, ("plot", "export", "diff", "regret", "audit")),
        ("decisions.npz", shaped((10**12,)), ("export --format npz", "regret")),
        ("decisions.npz", shaped((100, 1, 1)), ("export", "regret")),
        ("decisions.npz", b"", ("export", "regret")),
        ("decisions.npz", encrypted(shaped((100, 1, 1))), ("export",)),
        ("decisions.npz", packed(b"x" * 100, zipfile.ZIP_LZMA), ("export",)),
        ("decisions.npz", packed(b"x" * 100, zipfile.ZIP_BZIP2), ("export",)),
        ("metrics.csv", without("zero_loss"), ("show", "regret")),
        ("metrics.csv", without("seconds"), ("show",)),
        ("metrics.csv", lambda table: table.replace(b"\n2,", b"\n2,1.0,1.0,inf,", 1), ("regret", "plot")),
    ],
    ids=lambda value: None if isinstance(value, str | tuple) else "content",
)
def test_a_hostile_file_of_a_run_is_named_in_a_sentence(
    file: str, content: bytes | Callable[[bytes], bytes], commands: tuple[str, ...], slaternet: Command, here: Path
) -> None:
    path = here / "played" / file
    path.write_bytes(content(path.read_bytes()) if callable(content) else content)
    if file == "metrics.csv":
        (here / "played" / "summary.json").unlink()
    for command in commands:
        name, *options = command.split()
        others = ["simulated"] if name == "diff" else ["--out", "exported"] if name == "export" else []

        assert_refused(slaternet(name, "played", *others, *options), file)


def test_markup_and_escapes_in_a_summary_are_shown_as_they_are(slaternet: Command, here: Path) -> None:
    path = here / "simulated" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"algorithm": "[red]x[/] \x1b[31m\n", "digest": "[/]"}))

    shown = slaternet("show", "simulated")

    assert shown.code == 0
    assert "[red]x[/] ?[31m?" in shown.out
    assert not {letter for letter in shown.out if not letter.isprintable()} - {"\n"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("b = " + "[" * 5000 + "]" * 5000, "within each other"),
        (".".join("b" * 5000) + " = 1", "within each other"),
        ("b = " + "9" * 5000, "an integer has more than"),
        ("b = 0x" + "f" * 5000, "an integer has more than"),
        ("constraints = 1000000000", "adversary.options.constraints must be at most 4096"),
        ("rows = 1000000000", "the functions of a round would take"),
    ],
)
def test_a_hostile_spec_is_refused_before_it_takes_memory(
    line: str, words: str, slaternet: Command, here: Path
) -> None:
    text = (here / "plain.toml").read_text().replace("b = 1.0\nrows = 2\nconstraints = 2", line)
    (here / "hostile.toml").write_text(text)

    for command in ("check", "graph"):
        if command == "check" or "within" in words or "integer" in words:
            assert_refused(slaternet(command, "hostile.toml"), words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("run.agents=65536", "run.dimension=131072"), "lower one of the two"),
        (("run.agents=4096", "graph.name=complete"), "name a graph with fewer edges"),
        (
            ("run.agents=100", "run.dimension=131072", "adversary.options.rows=8"),
            "the functions of a round would take",
        ),
    ],
)
def test_a_game_that_no_memory_would_hold_is_refused(
    settings: tuple[str, ...], words: str, slaternet: Command, here: Path
) -> None:
    options = [word for each in settings for word in ("--set", each)]

    assert_refused(slaternet("simulate", "plain.toml", *options, "--set", "run.rounds=3"), words)


def test_a_game_of_ever_so_many_rounds_is_checked_and_begins_like_any_other(slaternet: Command, here: Path) -> None:
    forever = ("--set", f"run.rounds={1 << 62}")

    assert slaternet("check", "plain.toml", *forever).code == 0
    assert slaternet("graph", "plain.toml", *forever).code == 0
    assert_refused(slaternet("record", "plain.toml", *forever, "--out", "record.npz"), "record fewer rounds")
    command = [sys.executable, "-m", "slaternet_lab", "simulate", "plain.toml", *forever, "--out", "long"]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as playing:
        metrics = here / "long" / "metrics.csv"
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") > 3):
            assert playing.poll() is None
        playing.kill()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        lambda path: path.write_bytes(shaped((10**12,))),
        lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40),
        Path.mkdir,
    ],
)
def test_files_that_a_spec_names_are_read_only_if_they_are_what_they_should_be(
    make: Callable[[Path], object], slaternet: Command, here: Path
) -> None:
    for name, spec in (("graphs.npz", "graph-npz"), ("graphs.csv", "graph-list"), ("trace.npz", "replay")):
        (here / name).unlink()
        make(here / name)

        assert_refused(slaternet("check", f"{spec}.toml"), ".path = ")


def test_a_small_file_that_unpacks_to_gigabytes_of_weights_is_refused(slaternet: Command, here: Path) -> None:
    np.savez_compressed(here / "graphs.npz", W=np.full((1 << 20, 4, 4), 0.25))
    many = slaternet("check", "graph-npz.toml")
    np.savez_compressed(here / "graphs.npz", W=np.full((40, 1000, 1000), 0.001))
    dense = slaternet("check", "graph-npz.toml", "--set", "run.agents=1000")

    assert_refused(many, "holds 1048576 rounds; make it at most 262144")
    assert_refused(dense, "weights that are not 0; make it shorter or sparser")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Make a folder that no command has any business in, and require that it stays as it is."""
    folder = tmp_path / "outside"
    (folder / "folder").mkdir(parents=True)
    for path in (folder / "file", folder / "folder" / "metrics.csv"):
        path.write_text("not yours\n")
    before = file_corpus.contents(folder)
    yield folder
    assert file_corpus.contents(folder) == before


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("plot RUN", ("loss.png", "violation.png", "loss.png.draft")),
        ("regret RUN --points 3", ("regret.csv", "regret.png", "regret.csv.draft")),
        ("resume RUN --rounds 70", ("metrics.csv", "commitments.csv", "summary.json", "loss.png", "assumptions.txt")),
        ("simulate plain.toml --set run.rounds=3 --out RUN --force", ("spec.toml", "metrics.csv", "journal", "state")),
        ("export RUN --out RUN/journal --force", ("journal/metrics.csv", "journal/decisions.csv.draft")),
        ("graph plain.toml --out RUN/W.npz --rounds 1:3", ("W.npz", "W.npz.draft")),
        ("record plain.toml --out RUN/R.npz --set run.rounds=3 --force", ("R.npz", "R.npz.draft")),
    ],
)
def test_a_name_that_is_a_link_is_replaced_and_the_file_behind_it_stays(
    command: str, names: tuple[str, ...], slaternet: Command, here: Path, outside: Path
) -> None:
    run = here / "played"
    for name in names:
        target = outside / ("folder" if name in ("journal", "state") else "file")
        with suppress(FileNotFoundError):
            shutil.rmtree(run / name) if target.is_dir() else (run / name).unlink()
        (run / name).symlink_to(target)

    outcome = slaternet(*command.replace("RUN", "played").split())

    assert outcome.code == 0, outcome
    assert [name for name in names if (run / name).is_symlink()] == []


@pytest.mark.parametrize(
    "name", ["journal", "state", "state/agent-1", "state/agent-1/checkpoints", "state/adversary/lock"]
)
def test_a_run_whose_state_is_a_link_is_not_resumed(name: str, slaternet: Command, here: Path, outside: Path) -> None:
    kept = outside.parent / "kept"
    (here / "played" / name).rename(kept)
    before = file_corpus.contents(kept)
    (here / "played" / name).symlink_to(kept)

    assert_refused(slaternet("resume", "played", "--rounds", 70), f"{name} is a link")
    assert file_corpus.contents(kept) == before


def test_a_comparison_does_not_go_on_in_a_folder_that_is_a_link(slaternet: Command, here: Path, outside: Path) -> None:
    shutil.rmtree(here / "comparison" / "zero" / "seed-7")
    (here / "comparison" / "zero" / "seed-7").symlink_to(outside / "folder")
    command = "compare plain.toml --algorithms zhang2024,zero --seeds 1 --set run.rounds=4 --out comparison"

    assert_refused(slaternet(*command.split()), "seed-7 is a link")
