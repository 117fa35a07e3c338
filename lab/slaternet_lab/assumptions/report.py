"""The theory's assumptions, checked on a spec: what breaks the protocol is an error, what voids a theorem a warning."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet_adversary.build import is_built_in
from slaternet_agent import schedules
from slaternet_coordinator.graphs import assumption4
from slaternet_lab.assumptions.findings import PAPER, Finding
from slaternet_lab.parts import Parts

__all__ = ["FILE", "Finding", "breaches", "connecting", "examine", "write"]

FILE = "assumptions.txt"
"""Name of the report in a run folder."""

_LOOK = 256
"""Rounds whose graphs are looked at one by one."""
_CONNECT = 10_000
"""Rounds within which the union of the graphs must connect, where the game is longer or has no end."""


def examine(parts: Parts, *, thorough: bool = False) -> list[Finding]:
    """Return the report on a spec: set, graphs and schedule, then, unless these break the protocol, the functions.

    The functions of some rounds are played, of more rounds where it may take a second or two (`thorough`). Those of a
    user's own plugin are played only where he asks for it: they may leave traces, which a run must not have twice.
    """
    found = list(_protocol(parts, _LOOK))
    if any(finding.verdict == "error" for finding in found):
        return found
    if not thorough and not is_built_in(parts.spec.adversary.plugin):
        return [*found, Finding("note", "Functions", "not sampled: `slaternet check` samples those of your own plugin")]
    # here, because a solver takes long to load, and most commands only look for breaches
    from slaternet_lab.assumptions import functions, theory

    sampling = functions.THOROUGH if thorough else functions.QUICK
    if not functions.affordable(parts.spec, sampling):
        text = f"not sampled: agents times dimensions are more than {sampling.work}"
        return [*found, Finding("note", "Functions", text)]
    return found + theory.judge(parts, functions.measure(parts.spec, sampling), found)


def breaches(parts: Parts) -> Iterator[str]:
    """Yield the sentences of what makes the spec unplayable; no function is played."""
    return (finding.text for finding in _protocol(parts, look=1) if finding.verdict == "error")


def connecting(window: int) -> str:
    """Say in words what a window B means."""
    return (
        "each graph connects everyone" if window == 1 else f"any {window} successive graphs together connect everyone"
    )


def write(report: Iterable[Finding], folder: Path) -> Path:
    """Write the report to a run folder, one line each: verdict, what it is about, and the figures."""
    path = folder / FILE
    lines = [f"{each.verdict:8}{each.about:24}{each.text}\n" for each in report]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _protocol(parts: Parts, look: int) -> Iterator[Finding]:
    """Yield what is known without playing; the graphs of the first `look` rounds are looked at one by one."""
    yield Finding("ok", "Assumption 1 (set)", f"r(X) = {parts.set.inner:g}, R(X) = {parts.set.outer:g}")
    yield from _graph(parts, look)
    yield from _schedule(parts)
    if parts.adversary.history > 0:
        text = f"the plugin reads {parts.adversary.history} rounds of decisions: every round waits for all agents"
        yield Finding("warning", "Adversary", text)
    if parts.spec.departures:
        first, gone = parts.spec.departures[0].round, sum(len(each.agents) for each in parts.spec.departures)
        text = f"{gone} of the agents leave, the first in round {first}: Theorems 1 to 4 speak of games that all play"
        yield Finding("warning", "Departures", text)


def _graph(parts: Parts, look: int) -> Iterator[Finding]:
    graph, run = parts.graph, parts.spec.run
    rounds = min(run.rounds or look, look)
    smallest = 1.0
    try:
        for t in range(1, rounds + 1):
            matrix = graph.matrix(t)
            assumption4.check(matrix, t)
            smallest = min(smallest, float(matrix.weights.min()))
    except BadSpec as error:
        yield Finding("error", "Assumption 4 (weights)", str(error))
        return
    seen = f"rounds 1 to {rounds}"
    yield Finding("ok", "Assumption 4 (weights)", f"W_t doubly stochastic to {LIMITS.stochastic:g} in {seen}")
    yield Finding("ok", "Assumption 4 (weights)", f"smallest weight w = {smallest:g} in {seen}")
    if parts.spec.algorithm.mode == "local":
        yield Finding("ok", "Assumption 4 (window)", "nobody talks to anybody: every agent plays alone (mode local)")
        return
    window = assumption4.window(graph, rounds)
    if window is not None:
        yield Finding("ok", "Assumption 4 (window)", f"{connecting(window)} (B = {window}) in {seen}")
        return
    yield _late_or_never(parts, rounds)


def _late_or_never(parts: Parts, looked: int) -> Finding:
    run = parts.spec.run
    last = min(run.rounds or _CONNECT, _CONNECT)
    if assumption4.connects(parts.graph, last):
        text = f"the graphs of rounds 1 to {looked} together do not connect; Theorems 1 to 4 need a window B"
        return Finding("warning", "Assumption 4 (window)", text)
    name = parts.spec.graph.name
    if name == "none":
        text = 'graph.name = "none" lets nobody talk; name a graph, or set algorithm.mode = "local" to play alone'
        return Finding("error", "Assumption 4 (window)", text)
    text = f'graph.name = "{name}" never connects the {run.agents} agents within {last} rounds; give it more edges'
    return Finding("error", "Assumption 4 (window)", text)


def _schedule(parts: Parts) -> Iterator[Finding]:
    schedule, rounds = parts.schedule, parts.spec.run.rounds
    errors = schedules.breaches(schedule, parts.set, rounds)
    yield from (Finding("error", "Schedule", text) for text in errors)
    if errors:
        return
    if "delta" in schedule.sequences:
        first = schedule.step(1)
        bound = parts.set.inner * first.xi
        yield Finding("ok", "Schedule", f"delta_t <= r(X) xi_t (round 1: {first.delta:g} <= {bound:g})")
    if parts.spec.algorithm.name != PAPER:
        return
    warnings = schedules.growths(schedule, rounds)
    yield from (Finding("warning", "Schedule", text) for text in warnings)
    if not warnings:
        yield Finding("ok", "Schedule", "alpha_t, xi_t, delta_t never grow, gamma_t never falls")
