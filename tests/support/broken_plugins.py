"""A corpus of adversaries that are broken, each in one way, and what an author must be told of each."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

LATE = 9
"""The round in which most of them fail."""

_FILE = """\
import numpy as np
from slaternet_adversary import Adversary
{top}


class Functions:
    def __init__(self, t):
        self.t = t

    def loss(self, agents, points):{loss_mark}
{loss}

    def constraint(self, agents, points):{constraint_mark}
{constraint}


class Mine(Adversary):
    constraints = 1
    rowwise = {rowwise}

    def __init__(self, game{options}):{init_mark}
{init}

    def play(self, round, past):{play_mark}
{play}
"""

_BODIES = {
    "loss": "return (points**2).sum(-1)",
    "constraint": "return points[..., :1] - 1.0",
    "init": "super().__init__(game)",
    "play": "return Functions(round)",
}


@dataclass(frozen=True, kw_only=True)
class Broken:
    """An adversary, and words that each way of playing it must say; none where it is played to the end."""

    says: tuple[str, ...] = ()
    """In every game, besides the author's line where `HERE` marks one."""
    exam: tuple[str, ...] = ()
    """In the report of the exam; those of a game if empty."""
    seen: bool = True
    """Whether the exam finds it."""
    served: tuple[str, ...] = ()
    """Where a program of the author's serves it; as in every game if empty."""
    deadly: bool = False
    """Whether it harms the process that it runs in."""
    top: str = ""
    loss: str = ""
    constraint: str = ""
    init: str = ""
    play: str = ""
    options: str = ""
    given: tuple[tuple[str, object], ...] = ()
    """Options of the spec."""
    rowwise: bool = False
    definition: str = ""
    """The method whose definition is the author's line, where nothing is raised."""

    def write(self, folder: Path) -> Path:
        """Write the file of the adversary."""
        own = {name: getattr(self, name) or default for name, default in _BODIES.items()}
        marks = {f"{name}_mark": "  # HERE" * (name == self.definition) for name in _BODIES}
        bodies = {name: textwrap.indent(body, " " * 8) for name, body in own.items()}
        path = folder / "mine.py"
        path.write_text(_FILE.format(top=self.top, options=self.options, rowwise=self.rowwise, **bodies, **marks))
        return path


def here(path: Path) -> str:
    """Return the author's line that must be named, as FILE:LINE; empty where there is none."""
    lines = path.read_text().split("\n") if path.exists() else []
    return next((f"{path}:{number}" for number, line in enumerate(lines, 1) if "# HERE" in line), "")


def late(statement: str, otherwise: str) -> str:
    """Return a body that does something else in a late round."""
    return f"if self.t == {LATE}:\n    {statement}\nreturn {otherwise}"


LOSS, CONSTRAINT = "(points**2).sum(-1)", "points[..., :1] - 1.0"
LOST = ("ended with its process", "exit code 3", "see its last output")
HANGS = ("has not answered within 5 seconds", "see where it hangs")
GONE = (f"Evaluate of round {LATE} for agents", "or the connection broke", "start it there")

CORPUS: dict[str, Broken] = {
    "raises in play": Broken(
        play=f"if round == {LATE}:\n    raise KeyError('prices')  # HERE\nreturn Functions(round)",
        says=(f"play of round {LATE} raised KeyError: 'prices', at ", "correct its code"),
        exam=(f"play({LATE}) raised KeyError: 'prices', at ",),
    ),
    "raises in loss": Broken(
        loss=late("raise ValueError('no price')  # HERE", LOSS),
        says=(f"loss of round {LATE} for agent", "raised ValueError: no price, at "),
        exam=(f"loss of round {LATE} raised ValueError: no price, at ",),
    ),
    "raises in constraint": Broken(
        constraint=late("raise ValueError('no limit')  # HERE", CONSTRAINT),
        says=(f"constraint of round {LATE} for agent", "raised ValueError: no limit, at "),
        exam=(f"constraint of round {LATE} raised ValueError: no limit, at ",),
    ),
    "raises in the constructor": Broken(
        init="super().__init__(game)\nraise ValueError('no data')  # HERE",
        says=("its constructor raised ValueError: no data, at ",),
    ),
    "deep in numpy.linalg": Broken(
        loss=late("np.linalg.inv(np.zeros((3, 3)))  # HERE", LOSS),
        says=(f"loss of round {LATE} for agent", "raised LinAlgError: Singular matrix, at ", "`np.linalg.inv("),
        exam=(f"loss of round {LATE} raised LinAlgError: Singular matrix, at ",),
    ),
    "an error without text": Broken(
        loss=late("raise KeyError  # HERE", LOSS),
        says=(f"loss of round {LATE} for agent", "raised KeyError, at "),
        exam=(f"loss of round {LATE} raised KeyError, at ",),
    ),
    "a panic of a library": Broken(
        top="class Panic(BaseException):\n    def __str__(self):\n        raise RuntimeError('not in words')",
        loss=late("raise Panic  # HERE", LOSS),
        says=(f"loss of round {LATE} for agent", "raised Panic, at "),
        exam=(f"loss of round {LATE} raised Panic, at ",),
    ),
    "endless recursion": Broken(
        top="def deeper(x):\n    return deeper(x)  # HERE",
        loss=late("deeper(points)", LOSS),
        says=(f"loss of round {LATE} for agent", "raised RecursionError: maximum recursion depth exceeded"),
        exam=(f"loss of round {LATE} raised RecursionError",),
    ),
    "sys.exit": Broken(
        top="import sys",
        loss=late("sys.exit(3)  # HERE", LOSS),
        says=(
            f"loss of round {LATE} for agent",
            "raised SystemExit: 3, at ",
            "raise an error there instead of an exit",
        ),
        exam=(f"loss of round {LATE} raised SystemExit: 3, at ",),
    ),
    "memory": Broken(
        loss=late("np.ones(1 << 42)  # HERE", LOSS),
        says=(f"loss of round {LATE} for agent", "MemoryError", "less memory"),
        exam=(f"loss of round {LATE} raised MemoryError",),
    ),
    "writes into what it is given": Broken(
        loss=late("points[:] = 0.0  # HERE", LOSS),
        says=(
            f"loss of round {LATE} for agent",
            "raised ValueError: assignment destination is read-only, at ",
            "new array",
        ),
        exam=(f"loss of round {LATE} writes into an array it is given; make a new one",),
    ),
    "raises in scoring": Broken(
        top="class Unscored(Exception):\n    pass\n\n\ndef scored():\n    raise Unscored  # HERE",
        play=f"functions = Functions(round)\nif round == {LATE}:\n    functions.scoring = scored\nreturn functions",
        says=(f"scoring of round {LATE}", "raised Unscored, at "),
        exam=(f"scoring of round {LATE} raised Unscored, at ",),
    ),
    "wrong shape": Broken(
        loss=late("return points.sum((-1, -2))", LOSS),
        definition="loss",
        says=(
            f"loss of round {LATE} for agent",
            "wrong shape: expected (k, s) = (1, ",
            "got (1,), at ",
            "of that shape",
        ),
        exam=(f"loss of round {LATE} has shape (1,) where (1, 2) was asked for",),
    ),
    "wrong m": Broken(
        constraint=late("return points[..., :2] - 1.0", CONSTRAINT),
        definition="constraint",
        says=(f"constraint of round {LATE} for agent", "expected (k, s, m) = (1, ", ", 1), got (1, ", ", 2), at "),
        exam=(f"constraint of round {LATE} has shape",),
    ),
    "objects": Broken(
        loss=late(f"return ({LOSS}).astype(object)", LOSS),
        definition="loss",
        says=(f"loss of round {LATE} for agent", "returned an array of object where an array of float64 was due, at "),
        exam=(f"loss of round {LATE} is an array of object; return a float64 array",),
    ),
    "None from loss": Broken(
        loss=late("return None", LOSS),
        definition="loss",
        says=(f"loss of round {LATE} for agent", "returned NoneType where an array of float64 was due, at "),
        exam=(f"loss of round {LATE} is a NoneType; return a float64 array",),
    ),
    "None from play": Broken(
        play="return None",
        definition="play",
        says=("play of round 1 returned NoneType, which has no methods loss and constraint, at ", "return an object"),
        exam=("loss of round 1 does not exist; a round needs the methods loss and constraint",),
    ),
    "NaN": Broken(
        loss=late(f"return np.where(agents[:, None] == 2, np.nan, {LOSS})", LOSS),
        definition="loss",
        says=(f"loss of round {LATE} for agent 2 returned nan, which is not finite, at ", "keep its values finite"),
        exam=(f"loss of agent 2 in round {LATE} is nan at x = ",),
    ),
    "1e300": Broken(
        constraint=late("return np.full((*points.shape[:2], 1), 1e300)", CONSTRAINT),
        definition="constraint",
        says=(f"constraint of round {LATE} for agent", "returned 1e+300, which is too large to be scored", "moderate"),
        exam=("constraint of agent ", f" in round {LATE} is 1e+300 at x = ", "too large to be scored", "moderate"),
    ),
    "forgets super().__init__": Broken(
        init="self.prices = []",
        definition="init",
        says=("its constructor does not keep the game, at ", "call super().__init__(game) in it"),
    ),
    "uses the game too early": Broken(
        init="self.n = self.game.agents  # HERE\nsuper().__init__(game)",
        says=(
            "its constructor raised AttributeError: 'Mine' object has no attribute 'game'",
            "call super().__init__(game)",
        ),
    ),
    "import error": Broken(
        top="import no_such_module_anywhere  # HERE",
        says=("its import raised ModuleNotFoundError", "install no_such_module_anywhere, or correct the import"),
    ),
    "syntax error": Broken(top="def (:  # HERE", says=("its import raised SyntaxError: invalid syntax, at ",)),
    "wrong option": Broken(
        options=", *, price=1.0", given=(("prce", 2.0),), says=("prce is not an option of Mine; did you mean price?",)
    ),
    "os._exit": Broken(
        top="import os",
        loss=late("os._exit(3)", LOSS),
        deadly=True,
        says=(f"loss or constraint of round {LATE} for agents", *LOST),
        exam=(f"loss of round {LATE} ended its process, which ended with exit code 3",),
        served=GONE,
    ),
    "segmentation fault": Broken(
        top="import signal",
        loss=late("signal.raise_signal(signal.SIGSEGV)", LOSS),
        deadly=True,
        says=(f"loss or constraint of round {LATE} for agents", "was killed by SIGSEGV", "see its last output"),
        exam=(f"loss of round {LATE} ended its process, which was killed by SIGSEGV",),
        served=GONE,
    ),
    "endless loop": Broken(
        loss=late("while True: pass", LOSS),
        deadly=True,
        says=(f"loss or constraint of round {LATE} for agents", *HANGS),
        served=(f"Evaluate of round {LATE} for agents", *HANGS),
        exam=(f"loss of round {LATE} had not returned when the time for a call was over", "an endless loop"),
    ),
    "float32": Broken(loss=f"return ({LOSS}).astype(np.float32)", exam=("float32, with 1e-07 of a value lost",)),
    "a list": Broken(loss=f"return ({LOSS}).tolist()", exam=("is a list, which becomes one of float64",)),
    "prints": Broken(loss=f"print('hello')\nreturn {LOSS}", seen=False),
    "forks": Broken(
        top="import os",
        play="if not (child := os.fork()):\n    os._exit(0)\nos.waitpid(child, 0)\nreturn Functions(round)",
        deadly=True,
        seen=False,
    ),
    "not convex": Broken(loss="return -(points**2).sum(-1)", exam=("lies above",)),
    "not rowwise": Broken(rowwise=True, loss=f"return ({LOSS}) + 1e-9 * len(agents)", exam=("rowwise = True, but",)),
    "the clock": Broken(top="import time", loss=f"return ({LOSS}) + time.time()", exam=("round 1",)),
    "random numbers": Broken(loss=f"return ({LOSS}) + np.random.random()", exam=("round 1",)),
    "a changing state": Broken(
        loss=f"self.t += 1\nreturn ({LOSS}) + self.t", exam=("let a round remember no question",)
    ),
    "slow": Broken(
        top="import time",
        play="time.sleep(1.1 if round == 2 else 0.0)\nreturn Functions(round)",
        seen=False,
    ),
}
"""By what is wrong. `sys.exit` is an error like any other; float32 and lists are converted in a game."""
