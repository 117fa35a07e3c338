"""`slaternet adversary-call`: ask an adversary again what it was asked when it failed."""

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slaternet.texts import printable
from slaternet_lab.commands.options import RunArgument, with_traceback
from slaternet_lab.commands.report import WIDE, print_line, print_table

if TYPE_CHECKING:
    from slaternet.model import Array
    from slaternet.spec import Spec
    from slaternet_adversary.api import Adversary
    from slaternet_adversary.plugin.calls import CheckedRound
    from slaternet_adversary.shell.failed_call import FailedCall


@with_traceback
def adversary_call(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A name, pkg.module:Class, path/file.py:Class or grpc://HOST:PORT of the adversary."
        ),
    ],
    run: RunArgument,
) -> None:
    """Ask an adversary again what it was asked when it failed in a run, and print the values or the error.

    It is made in this process, where breakpoint() works, and plays the rounds before. Ctrl-C says where its code is.
    """
    from slaternet.spec.author_frames import of_author
    from slaternet_adversary.plugin.makers import open_plugin
    from slaternet_adversary.shell.failed_call import FailedCall

    spec = _spec(target, run)
    call = FailedCall.read(run, spec.run.agents, spec.run.dimension)
    try:
        with open_plugin(spec) as (plugin, _):
            at = _played(plugin, call, _past(run, call, spec) if plugin.history else None)
            values = _asked(at, call)
    except KeyboardInterrupt as interrupt:
        for frame, line in of_author(traceback.walk_tb(interrupt.__traceback__))[-1:]:
            where = f"{frame.f_code.co_filename}:{line}, in {frame.f_code.co_name}"
            typer.echo(f"slaternet: it was at {printable(where)}", err=True)
        raise
    print_line(f"{call.method} of round {call.round} does not fail any more")
    if values:
        cells = zip(*(map(_written, each) for each in values.values()), strict=True)
        names = ["point"] if call.method == "scoring" else ["agent"]
        rows = ([str(about), *row] for about, row in zip(_abouts(call), cells, strict=True))
        print_table([*names, *values], rows, width=WIDE)


def _spec(target: str, run: Path) -> "Spec":
    """Return the run's game with this adversary in this process; what agents are granted does not matter."""
    from slaternet.spec.paths import located
    from slaternet.spec.plugins import absolute, is_foreign
    from slaternet.storage.files import read_spec

    spec = located(read_spec(run / "spec.toml"), run)
    isolation = None if is_foreign(target) else "none"
    changes = {"adversary.plugin": absolute(target, Path.cwd()), "adversary.isolation": isolation}
    return spec.replace(**changes, feedback=None)


def _past(run: Path, call: "FailedCall", spec: "Spec") -> "Array":
    """Return all decisions before the round of a call, NaN for agents that have left."""
    import numpy as np

    from slaternet.errors import BadSpec
    from slaternet_adversary.journal.entries import purchases
    from slaternet_adversary.journal.journal import begun, read

    if call.past is not None:
        return call.past
    past, known = np.full((call.round - 1, spec.run.agents, spec.run.dimension), np.nan), 0
    for entry in read(run) if begun(run) else ():
        for question in (each.asked.question for each in purchases(entry)):
            if question.round < call.round:
                past[question.round - 1, question.agents] = question.x
                known = max(known, question.round)
    if known < call.round - 1:
        raise BadSpec(f"{run} lacks the decisions of round {known + 1}, on which the functions depend; play it again")
    return past


def _played(plugin: "Adversary", call: "FailedCall", past: "Array | None") -> "CheckedRound":
    """Return the functions of the round of a call, all rounds before played in order."""
    from slaternet_adversary.api import History
    from slaternet_adversary.plugin.calls import CheckedRound, adversary_edge, require_round

    functions: object = None
    for round in range(1, call.round + 1):
        history = None if past is None else History(past[max(0, round - 1 - plugin.history) : round - 1])
        with adversary_edge(plugin, "play", round):
            functions = plugin.play(round, history)
        require_round(plugin, round, functions)
    return CheckedRound(plugin, call.round, functions)


def _asked(at: "CheckedRound", call: "FailedCall") -> "dict[str, Array]":
    """Return what the functions answer, by method."""
    from slaternet_adversary.scoring import NetworkScore, scored_points

    if call.method == "play":
        at.scoring()  # a worker calls it with play
        return {}
    if call.method != "scoring":
        methods = ("loss", "constraint") if call.method == "values" else (call.method,)
        return {method: at.asked(method, call.agents, call.points) for method in methods}
    points = scored_points(call.points[:, 0], at.plugin.game.set.centre)
    with at.edge("scoring", call.agents):
        score = NetworkScore(at.functions, call.agents, points, at.m)
    while not at.scored(score.step, call.agents):
        pass
    at.require_finite(call.agents, float(score.loss.sum()), float(score.violation.sum()))
    return {"loss": score.loss, "violation": score.violation}


def _abouts(call: "FailedCall") -> list[object]:
    """Return what each row of the values is about: an agent, or a point at which the round is scored."""
    agents = call.agents.tolist()
    return [*(f"decision of agent {agent}" for agent in agents), "centre"] if call.method == "scoring" else agents


def _written(values: "Array") -> str:
    return " ".join(f"{value:.6g}" for value in values.ravel().tolist())
