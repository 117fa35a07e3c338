"""An adversary of the user's own: a package to start from, and its exam."""

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slaternet.errors import PluginFailed
from slaternet_lab.commands.debugging import with_debugger
from slaternet_lab.commands.options import JsonOption, with_traceback
from slaternet_lab.commands.report import bar, print_findings

if TYPE_CHECKING:
    from slaternet.spec import Spec
    from slaternet_adversary.testing import Line
    from slaternet_adversary.testing.exam import Progress
    from slaternet_lab.assumptions.sampling import Figures


class Language(StrEnum):
    """The languages that there is an example in."""

    PYTHON = "python"
    CPP = "cpp"


def adversary_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in specs: words joined by dashes.")],
    where: Annotated[
        Path,
        typer.Option("--dir", help="Where its folder is made; the working directory if absent.", show_default=False),
    ] = Path(),
    language: Annotated[
        Language, typer.Option("--lang", help="A Python package, or a program in C++ that the game starts.")
    ] = Language.PYTHON,
) -> None:
    """Make an adversary of your own to start from: an example that works, and a spec that plays it."""
    from slaternet_lab.tools.scaffold import create

    folder = create(name, where, language)
    path = shlex.quote(str(folder))
    if language is Language.CPP:
        source, build = folder / f"{folder.name}.cpp", f"make -C {path}"
        target = shlex.quote(f"exec:{shlex.quote(str(folder / 'build' / folder.name))} --port {{port}}")
    else:
        source, build = folder / folder.name.replace("-", "_") / "adversary.py", f"pip install -e {path}"
        target = folder.name
    typer.echo(f"{folder} holds the adversary {folder.name}; now edit {source}, or play it as it is:")
    for command in (build, f"slaternet adversary-check {target}", f"slaternet run {path}/spec.toml"):
        typer.echo(f"  {command}")


@with_traceback
def adversary_check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A name, pkg.module:Class, path/file.py:Class, exec:COMMAND or grpc://HOST:PORT of an adversary.",
        ),
    ],
    spec: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="The game it is examined in: a shipped name, a file or a run folder. If absent, the shipped spec of "
            "its name, or else 6 agents in the box [-2, 2]^5.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key of that spec, as in adversary.options.b=1 or run.agents=3; repeatable.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, metavar="N", help="Play N rounds; 12 if absent.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.1, metavar="S", help="End after S seconds, with what was examined by then."),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Call it in this process, whatever its isolation, for a debugger.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put an adversary through the exam: its contract, convex functions, a feasible point, what it costs.

    Its code runs in a worker, as in a game; `--debug` examines it in this process, where a debugger works.
    """
    from slaternet_lab.tools.examined import code_of, record

    game = _spec(target, spec, settings or [])
    code = code_of(game.adversary.plugin)  # before the exam: it may be edited meanwhile

    def examined(debugged: bool) -> "list[Line]":
        here = debugged or game.adversary.isolation == "none"  # then a debugger may have the terminal
        with nullcontext() if here else bar() as progress:
            told = {} if progress is None else {"progress": progress.stage}
            return examine(game, rounds=rounds, seconds=seconds, **told)

    report = with_debugger(examined, wanted=debug, as_json=as_json)
    shown = [replace(each, text=_placed(each)) for each in report]
    columns = {"line": "about", "verdict": "verdict", "figure": "text"}
    print_findings(report if as_json else shown, columns, as_json=as_json)
    for each in shown:
        if each.verdict == "failed":
            raise PluginFailed.saying(f"adversary {target} fails the exam: {each.about}: {each.text}", each.fault)
    if code and not any(each.text.startswith("not examined") for each in report):
        record(code)


def _placed(line: "Line") -> str:
    """Return the text of a line with its place in the code, relative to the working directory where it is below it."""
    if not line.where or line.where in line.text:
        return line.text
    return f"{line.text} ({line.where.removeprefix(f'{Path.cwd()}/')})"


def _spec(target: str, what: str | None, settings: Sequence[str]) -> "Spec":
    """Return the game with this adversary, which keeps the options of a spec that is about it."""
    from slaternet.spec import Spec
    from slaternet.spec.overrides import override
    from slaternet.spec.paths import located
    from slaternet.spec.plugins import absolute
    from slaternet_lab.specs import shipped
    from slaternet_lab.specs.resolve import read

    plugin = absolute(target, Path.cwd())
    named = [f"adversary.plugin={plugin}", *settings]
    if what is None and target not in shipped.names():
        spec = Spec.load(override(shipped.EXAM, named), source="--set")
    else:
        spec = located(*read(what or target, settings))
        spec = spec if spec.adversary.plugin == plugin else located(*read(what or target, named))
    return spec.replace(feedback=None)  # what agents are granted does not concern the adversary


def examine(
    spec: "Spec",
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    progress: "Progress" = lambda head, done, total: None,
) -> "list[Line]":
    """Return the report on a spec's adversary: its exam, then F, G1, G2, mu and the theorems they allow."""
    from slaternet_adversary.testing import Line
    from slaternet_adversary.testing import examine as examine_contract
    from slaternet_lab.assumptions.sampling import QUICK, affordable, measure

    began = time.monotonic()
    report = examine_contract(spec, rounds=rounds, seconds=seconds, progress=progress)
    spent = time.monotonic() - began
    if failed := next((line.about for line in report if line.verdict == "failed"), ""):
        return [*report, Line("note", "theorems", f"not examined: correct {failed} first")]
    if seconds is not None and 2.0 * spent > seconds:
        return [
            *report,
            Line("note", "theorems", f"not examined: it may take the {spent:.3g} seconds of the exam again"),
        ]
    if not affordable(spec, QUICK):
        text = f"not sampled: agents times dimensions are more than {QUICK.work}"
        return [*report, Line("note", "theorems", text)]
    slater = next(line.verdict == "ok" for line in report if line.about == "feasible")
    try:
        return [*report, *_theory(measure(spec, QUICK), slater=slater)]
    except PluginFailed as error:
        return [*report, Line("failed", "theorems", str(error), fault=error.fault)]


def _theory(figures: "Figures", *, slater: bool) -> "Iterator[Line]":
    """Yield the sampled figures, and the theorems that they allow."""
    from slaternet_adversary.testing import Line

    yield Line("note", "bound", f"F >= {figures.bound:.5g}, the largest |f| sampled (Assumption 2)")
    slopes = (("G1", "|df|", figures.loss_slope), ("G2", "|dg|", figures.constraint_slope))
    known = [f"{name} >= {slope:.5g}, the largest {what}" for name, what, slope in slopes if slope is not None]
    text = "; ".join(known) or "not examined: the dimensions are too many for differences"
    yield Line("note", "slopes", f"{text} (Assumption 3)")
    strong = figures.modulus is not None and figures.modulus > 0.0
    yield Line("note", "modulus", f"{_modulus(figures)} (Assumption 6)")
    yield Line("note", "theorems", _theorems(slater=slater, strong=strong))


def _modulus(figures: "Figures") -> str:
    if figures.modulus is None or figures.average_modulus is None:
        return "not examined: there is no loss_gradient, and the dimensions are too many for differences"
    sign = "=" if figures.exact_modulus else "<="
    if figures.modulus > 0.0:
        return f"losses are strongly convex, mu {sign} {figures.modulus:.5g}"
    return f"some loss is not strongly convex; of their average mu {sign} {figures.average_modulus:.5g}"


def _theorems(*, slater: bool, strong: bool) -> str:
    """Return which theorems the functions allow; graph, schedule and gamma_0 are the spec's."""
    holds = {1: True, 2: slater, 3: strong, 4: strong}
    good = [str(theorem) for theorem, each in holds.items() if each]
    text = f"as far as sampled, the functions are what Theorem{'s' * (len(good) > 1)} {_listed(good)} need"
    lacks = [name for name, each in (("Slater's condition", slater), ("strong convexity", strong)) if not each]
    return f"{text}; they lack {_listed(lacks)}" if lacks else text


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
