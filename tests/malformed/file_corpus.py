"""Mutated run folders, specs and data through every command that reads them: an answer or one sentence, and no harm.

python -m tests.malformed.file_corpus 2000 --seed 1         (--case 17 repeats one of them and shows what it prints)

A case is a copy of a sound folder with one file spoilt, and a command. It must end with exit code 0, 2 or 5, say at
most one sentence on standard error, stay below 1 GB of memory, and change nothing outside its folder. Commands run in
forked processes of a worker that has imported everything once.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.malformed.file_cases import Case, make_sound

CODES = (0, 2, 5)
MEMORY = 1 << 30
"""Bytes that no process of a case may hold at once."""
LIMIT = 2 << 30
"""What the kernel grants it: more than MEMORY, so that a command that wants too much is seen, not refused in time."""
SECONDS = 120
_CHUNK = 25


@dataclass(frozen=True)
class Outcome:
    """What a command did; `memory` is the most that it held at once, in bytes."""

    code: int
    out: str
    err: str
    memory: int
    defects: tuple[str, ...]
    """The logs of defects."""


def run_command(folder: Path, words: Sequence[str]) -> Outcome:
    """Run `slaternet` with these words in a folder, in a forked process with limited memory."""
    with tempfile.TemporaryDirectory(prefix="slaternet-") as scratch:
        pid = os.fork()
        if not pid:
            _become(folder, Path(scratch), words)
        _, status, used = os.wait4(pid, 0)
        out, err = ((Path(scratch) / name).read_text(errors="replace") for name in ("out", "err"))
        defects = tuple(each.read_text() for each in Path(scratch).glob("slaternet-defect-*"))
    return Outcome(os.waitstatus_to_exitcode(status), out, err, 1024 * used.ru_maxrss, defects)


def _become(folder: Path, scratch: Path, words: Sequence[str]) -> None:
    """Turn this process into the command; it never returns."""
    code = 70
    try:
        os.chdir(folder)
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
        for number, name in ((1, "out"), (2, "err")):
            descriptor = os.open(scratch / name, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
        signal.alarm(SECONDS)
        from slaternet_lab.cli import main

        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


@dataclass(frozen=True)
class Verdict:
    """What became of a case; `faults` are what should not have happened."""

    case: Case
    how: str
    command: str
    outcome: Outcome
    faults: tuple[str, ...]

    def __str__(self) -> str:
        said = "".join((self.outcome.out[-500:], self.outcome.err[-1000:], *self.outcome.defects))
        return f"{self.case}\n  {self.how}\n  slaternet {self.command}\n  {'; '.join(self.faults)}\n{said}"


def run_case(case: Case, sound: Path) -> Verdict:
    """Run one case and judge it."""
    with tempfile.TemporaryDirectory(prefix="slaternet-case-") as folder:
        place = Path(folder)
        how, command = case.prepare(sound, place)
        before = contents(place / "outside")
        outcome = run_command(place / "inside", command)
        faults = tuple(_faults(outcome))
        if contents(place / "outside") != before:
            faults += ("something outside was changed",)
    return Verdict(case, how, " ".join(command), outcome, faults)


def _faults(outcome: Outcome) -> Iterator[str]:
    code, out, err, memory = outcome.code, outcome.out, outcome.err, outcome.memory
    if code not in CODES:
        yield f"exit code {code}"
    lines = [line for line in err.splitlines() if not _LOGGED.match(line)]
    sentences = [line for line in lines if line.startswith("slaternet: ")]
    if len(lines) > 1 or (code and code != 5 and not sentences):
        yield f"{len(lines)} lines on standard error, {len(sentences)} sentences"
    for word in ("Traceback", "Aborted", "Warning", "a defect of"):
        if word in out + err:
            yield f"it says {word}"
    if odd := {letter for letter in out + err if not letter.isprintable() and letter != "\n"}:
        yield f"it prints {odd}"
    if memory >= MEMORY:
        yield f"it took {memory >> 20} MiB"


_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")
"""The beginning of a line of the log, such as that the code is not the one that the spec was resolved with."""


def contents(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return everything below a folder, with mode, time and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def preload() -> None:
    """Import all that commands import when they are called, so that a case costs a fork."""
    import slaternet_lab.assumptions.theory
    import slaternet_lab.audit.auditor
    import slaternet_lab.cli
    import slaternet_lab.comparison.play
    import slaternet_lab.games.resume
    import slaternet_lab.hindsight.regret
    import slaternet_lab.runs.export  # noqa: F401
    import slaternet_lab.runs.plots as plots

    with tempfile.TemporaryDirectory() as folder, plots.new_figure(Path(folder) / "warm.png") as (_, axes):
        axes.plot([0, 1], [0, 1])


def _judge_chunk(seed: int, numbers: Sequence[int], sound: Path) -> list[Verdict]:
    preload()
    return [run_case(Case(seed, number), sound) for number in numbers]


def judge(cases: int, seed: int, sound: Path, *, workers: int | None = None) -> Iterator[Verdict]:
    """Run that many cases of a seed, in so many processes."""
    chunks = [range(first, min(first + _CHUNK, cases)) for first in range(0, cases, _CHUNK)]
    workers = min(workers or os.cpu_count() or 1, len(chunks))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for verdicts in pool.map(_judge_chunk, [seed] * len(chunks), chunks, [sound] * len(chunks)):
            yield from verdicts


def main() -> int:
    """Print what became of so many cases; the exit code is 1 where one has a fault."""
    parser = argparse.ArgumentParser(description="Run commands on mutated run folders, specs and data.")
    parser.add_argument("cases", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    parser.add_argument("--sound", type=Path, help="where the sound ones are, or are put to be used again")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        sound = given.sound or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sound"
        if not sound.exists():
            make_sound(sound)
        if given.case is not None:
            preload()
            verdict = run_case(Case(given.seed, given.case), sound)
            print(verdict, f"exit code {verdict.outcome.code}, {verdict.outcome.memory >> 20} MiB")
            return bool(verdict.faults)
        codes: Counter[int] = Counter()
        memory, faulty = 0, 0
        for verdict in judge(given.cases, given.seed, sound):
            codes[verdict.outcome.code] += 1
            memory, faulty = max(memory, verdict.outcome.memory), faulty + bool(verdict.faults)
            if verdict.faults:
                print(verdict, flush=True)
        print(f"exit codes {dict(sorted(codes.items()))}, at most {memory >> 20} MiB, {faulty} with faults")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
