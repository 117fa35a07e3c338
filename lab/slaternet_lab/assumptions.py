"""The theory's assumptions, checked on a spec: what breaks the protocol is an error, what voids a theorem a warning."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet_agent.schedules import findings as schedule_findings
from slaternet_coordinator.graphs import checks
from slaternet_lab.parts import Parts

FILE = "assumptions.txt"
"""Name of the report in a run folder."""

_LOOK = 256
"""Rounds whose graphs are looked at one by one."""
_CONNECT = 10_000
"""Rounds within which the union of the graphs must connect, where the game is longer or has no end."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    verdict: Literal["ok", "warning", "error"]
    about: str
    text: str


def examine(parts: Parts, look: int = _LOOK) -> list[Finding]:
    """Return the report on a spec; the graphs of the first `look` rounds are looked at one by one."""
    return [*_set(parts), *_graph(parts, look), *_schedule(parts), *_adversary(parts)]


def breaches(parts: Parts) -> Iterator[str]:
    """Yield the sentences of what makes the spec unplayable; quicker than the whole report."""
    return (finding.text for finding in examine(parts, look=1) if finding.verdict == "error")


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


def _set(parts: Parts) -> Iterator[Finding]:
    yield Finding("ok", "Assumption 1 (set)", f"r(X) = {parts.set.inner:g}, R(X) = {parts.set.outer:g}")


def _graph(parts: Parts, look: int) -> Iterator[Finding]:
    graph, run = parts.graph, parts.spec.run
    rounds = min(run.rounds or look, look)
    smallest = 1.0
    try:
        for t in range(1, rounds + 1):
            matrix = graph.matrix(t)
            checks.check(matrix, t)
            smallest = min(smallest, float(matrix.weights.min()))
    except BadSpec as error:
        yield Finding("error", "Assumption 4 (weights)", str(error))
        return
    seen = f"rounds 1 to {rounds}"
    yield Finding("ok", "Assumption 4 (weights)", f"W_t doubly stochastic to {LIMITS.stochastic:g} in {seen}")
    yield Finding("ok", "Assumption 4 (weights)", f"smallest weight w = {smallest:g} in {seen}")
    window = checks.window(graph, rounds)
    if window is not None:
        yield Finding("ok", "Assumption 4 (window)", f"{connecting(window)} (B = {window}) in {seen}")
        return
    yield _late_or_never(parts, rounds)


def _late_or_never(parts: Parts, looked: int) -> Finding:
    run = parts.spec.run
    last = min(run.rounds or _CONNECT, _CONNECT)
    if checks.connects(parts.graph, last):
        text = f"the graphs of rounds 1 to {looked} together do not connect; Theorems 1 to 4 need a window B"
        return Finding("warning", "Assumption 4 (window)", text)
    name = parts.spec.graph.name
    text = f'graph.name = "{name}" never connects the {run.agents} agents within {last} rounds; give it more edges'
    return Finding("error", "Assumption 4 (window)", text)


def _schedule(parts: Parts) -> Iterator[Finding]:
    found = schedule_findings(parts.schedule, parts.set, parts.spec.run.rounds)
    for severity, text in found:
        yield Finding("error" if severity == "error" else "warning", "Schedule", text)
    if found:
        return
    first = parts.schedule.step(1)
    bound = parts.set.inner * first.xi
    yield Finding("ok", "Schedule", f"delta_t <= r(X) xi_t (round 1: {first.delta:g} <= {bound:g})")
    yield Finding("ok", "Schedule", "alpha_t, xi_t, delta_t never grow, gamma_t never falls")


def _adversary(parts: Parts) -> Iterator[Finding]:
    if parts.adversary.history > 0:
        text = f"the plugin reads {parts.adversary.history} rounds of decisions: every round waits for all agents"
        yield Finding("warning", "Adversary", text)
