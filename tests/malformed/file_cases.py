"""The cases of the corpus of files: a copy of something sound with one file spoilt, by a seed, and a command."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from tests.malformed import spoilt_files as spoilt

from slaternet_lab.comparison.play import compare
from slaternet_lab.games.run import play
from slaternet_lab.games.simulation import simulate
from slaternet_lab.specs.resolve import load

SPEC = """# small enough to be played in no time
[run]
name = "small"
agents = 4
rounds = 66
dimension = 3
seed = 7

[set]
kind = "box"
lower = -5.0
upper = 5.0

[algorithm]
name = "zhang2024"
schedule = "table2"
gamma0 = 0.15
delta0 = 0.01

[graph]
name = "{graph}"
{path}

[adversary]
plugin = "{plugin}"

[adversary.options]
{options}

[record]
decisions = true
score_every = 1
"""
REGRESSION = {"plugin": "linear-regression", "options": "b = 1.0\nrows = 2\nconstraints = 2"}
SPECS = {
    "plain.toml": {"graph": "ring", "path": 'weights = "metropolis"', **REGRESSION},
    "graph-npz.toml": {"graph": "file", "path": 'path = "graphs.npz"', **REGRESSION},
    "graph-list.toml": {"graph": "file", "path": 'path = "graphs.csv"', **REGRESSION},
    "replay.toml": {"graph": "erdos-renyi", "path": "rho = 0.5", "plugin": "replay", "options": 'path = "trace.npz"'},
    "data.toml": {"graph": "geometric", "path": "radius = 0.9", "plugin": "logistic", "options": 'data = "data.csv"'},
}
"""Specs, and what each has instead of the braces above."""

DATA = {
    "graphs.npz": "graph-npz.toml",
    "graphs.csv": "graph-list.toml",
    "trace.npz": "replay.toml",
    "data.csv": "data.toml",
}
"""Files that specs name, and the spec that does."""

RUN = {
    "spec.toml": spoilt.spoil_toml,
    "summary.json": spoilt.spoil_json,
    "metrics.csv": spoilt.spoil_csv,
    "commitments.csv": spoilt.spoil_csv,
    "decisions.npz": spoilt.spoil_npz,
    "journal/adversary": spoilt.spoil_journal,
    "state/run.json": spoilt.spoil_json,
    "state/coordinator/spec.toml": spoilt.spoil_toml,
    "state/coordinator/register.sqlite": spoilt.spoil_register,
    "state/adversary/state.json": spoilt.spoil_json,
    "state/agent-1/state.json": spoilt.spoil_json,
    "state/agent-1/checkpoints/000064": spoilt.spoil_bytes,
}
"""Files of a run, and how those of their format are spoilt."""
WRITTEN = (
    "loss.png",
    "loss.png.draft",
    "violation.png",
    "regret.csv",
    "regret.csv.draft",
    "regret.png",
    "assumptions.txt",
    "metrics.csv",
    "summary.json",
    "spec.toml.draft",
    "decisions.npz",
    "journal",
    "state",
    "state/agent-1",
    "state/agent-1/log",
    "state/agent-1/checkpoints",
    "state/coordinator/register.sqlite",
    "state/adversary/lock",
)
"""What commands write or replace in a run folder."""

SHOWING = ("show RUN", "show RUN --json")
AUDITING = ("audit RUN", "audit RUN --json")
DRAWING = ("plot RUN", "export RUN --format csv,npz --out export", "regret RUN --points 3")
DIFFERING = ("diff RUN SOUND", "diff SOUND RUN --json")
RESUMING = ("resume RUN", "resume RUN --rounds 70")
SPECIFYING = ("check RUN", "graph RUN --rounds 1:5", "simulate RUN --set run.rounds=3 --out simulated")
READERS = {
    "spec.toml": (*SHOWING, *AUDITING, *DRAWING, *DIFFERING, *SPECIFYING),
    "summary.json": (*SHOWING, *AUDITING),
    "metrics.csv": (*SHOWING, *AUDITING, *DRAWING, *DIFFERING),
    "decisions.npz": (*DRAWING[1:], DRAWING[1]),
    "commitments.csv": AUDITING,
    "journal/adversary": AUDITING,
}
"""The commands that read a file of a run; those of the states are read by `resume` alone."""
SPEC_READING = (
    "check SPEC",
    "graph SPEC --rounds 1:5 --out W.npz",
    "simulate SPEC --set run.rounds=3 --out simulated",
    "record SPEC --set run.rounds=3 --out record.npz",
)
COMPARING = "compare plain.toml --algorithms zhang2024,zero --seeds 1 --set run.rounds=4 --out RUN --jobs 1"


@dataclass(frozen=True)
class Case:
    """One case, by its seed and number."""

    seed: int
    number: int

    def __str__(self) -> str:
        return f"python -m tests.malformed.file_corpus --seed {self.seed} --case {self.number}"

    def prepare(self, sound: Path, place: Path) -> tuple[str, list[str]]:
        """Spoil a copy of something sound in `place`; return how, and the command that reads it."""
        random = Random(f"{self.seed}/{self.number}")
        outside, inside = place / "outside", place / "inside"
        for folder in (outside / "folder", inside):
            folder.mkdir(parents=True)
            (folder.parent / "file").write_text("not yours\n")
            (folder / "file").write_text("nor this\n")
        for name in (*SPECS, *DATA):
            shutil.copy(sound / name, inside / name)
        kind = random.choices((_spec, _names, _run, _states, _comparison), (37, 14, 42, 4, 3))[0]
        how, command = kind(sound, inside / "run", outside, random)
        return how, command.replace("RUN", "run").replace("SOUND", str(sound / "simulated")).split()


def _spec(sound: Path, run: Path, outside: Path, random: Random) -> tuple[str, str]:
    """Spoil a spec, or a file that one names."""
    name = random.choice((*SPECS, *DATA))
    how = _spoil(run.with_name(name), _SPOILERS[Path(name).suffix], random, outside)
    return f"{name}: {how}", random.choice(SPEC_READING).replace("SPEC", DATA.get(name, name))


def _names(sound: Path, run: Path, outside: Path, random: Random) -> tuple[str, str]:
    """Put something else in the place of a file of a run that a command writes."""
    shutil.copytree(sound / "played", run)
    name = random.choice([each for each in WRITTEN if (run / each).parent.is_dir()])
    (run / name).touch()
    how = spoilt.spoil_name(run / name, random, outside)
    commands = ("plot RUN", "regret RUN --points 3", "simulate plain.toml --set run.rounds=3 --out RUN --force")
    return f"{name} {how}", random.choice((*commands, *commands, "show RUN", RESUMING[1]))


def _run(sound: Path, run: Path, outside: Path, random: Random) -> tuple[str, str]:
    """Spoil a file of a run."""
    source = random.choice(("simulated", "played"))
    shutil.copytree(sound / source, run)
    name = random.choice([each for each in RUN if (run / each).exists()])
    how = _spoil(run / name, RUN[name], random, outside)
    command = random.choice(READERS.get(name, RESUMING[:1]))
    if name == "metrics.csv" and command in SHOWING:
        (run / "summary.json").unlink()  # else they do not read it
    return f"{name} of a {source} run: {how}", command


def _states(sound: Path, run: Path, outside: Path, random: Random) -> tuple[str, str]:
    """Spoil a file from which a run goes on."""
    shutil.copytree(sound / "played", run)
    name = random.choice([each for each in RUN if each.startswith(("state", "journal", "spec", "metrics"))])
    return f"{name}: {_spoil(run / name, RUN[name], random, outside)}", RESUMING[1]


def _comparison(sound: Path, run: Path, outside: Path, random: Random) -> tuple[str, str]:
    """Spoil the folder of a comparison."""
    shutil.copytree(sound / "comparison", run)
    name = random.choice(("comparison.json", "comparison.json", "zhang2024", "zero/seed-7", "zero/seed-7/summary.json"))
    return f"{name}: {_spoil(run / name, spoilt.spoil_json, random, outside)}", COMPARING


_SPOILERS = {".toml": spoilt.spoil_toml, ".json": spoilt.spoil_json, ".npz": spoilt.spoil_npz, ".csv": spoilt.spoil_csv}


def _spoil(path: Path, spoiler: spoilt.Spoiler, random: Random, outside: Path) -> str:
    chance = random.random()
    if chance < 0.1 or path.is_dir():
        return spoilt.spoil_name(path, random, outside)
    how = (spoiler if chance < 0.7 else spoilt.spoil_bytes)(path, random)
    if path.name == "run.json" and path.stat().st_size < 1 << 20:
        # a game that was to go on for ever would
        path.write_bytes(re.sub(rb'("rounds": *)\d{3,}', rb"\g<1>70", path.read_bytes()))
    return how


def make_sound(place: Path) -> None:
    """Make what the cases are copies of: specs with their data, a simulated run, one over the network, a comparison."""
    place.mkdir(parents=True, exist_ok=True)
    for name, texts in SPECS.items():
        (place / name).write_text(SPEC.format(**texts))
    draw = np.random.default_rng(1)
    np.savez_compressed(place / "graphs.npz", W=np.full((2, 4, 4), 0.25), rounds=np.arange(1, 3))
    (place / "graphs.csv").write_text("round,i,j\n1,0,1\n1,1,2\n2,2,3\n2,0,3\n")
    matrix, offset = draw.uniform(0.0, 1.0, (70, 4, 3, 3)), draw.uniform(1.0, 2.0, (70, 4, 3))
    np.savez(place / "trace.npz", matrix=matrix, offset=offset, rows=2)
    samples = ("{:.3f},{:.3f},{:.3f},{},{}".format(*draw.uniform(-1, 1, 3), row % 2, row // 2 % 2) for row in range(64))
    (place / "data.csv").write_text("\n".join(("a,b,c,label,group", *samples)) + "\n")
    spec = load(str(place / "plain.toml"))
    simulate(spec, out=place / "simulated")
    play(spec, out=place / "played", hosts=2)
    compare(
        str(place / "plain.toml"),
        algorithms=["zhang2024", "zero"],
        seeds=1,
        settings=["run.rounds=4"],
        out=place / "comparison",
        jobs=1,
    )
