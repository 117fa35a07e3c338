"""Whether a spec can be played at all: its set, graphs and schedule, checked without playing a function."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet_agent.algorithms import schedules
from slaternet_coordinator.graphs import assumption4
from slaternet_lab.specs.assemble import Parts

_CONNECT = 10_000
"""Rounds within which the union of the graphs must connect, where the game is longer or has no end."""

PAPER = "zhang2024"
"""The algorithm that Theorems 1 to 4 are about."""

Verdict = Literal["ok", "note", "warning", "error"]
"""A note is neither good nor bad: what was examined, what could not be, what does not concern this spec."""


@dataclass(frozen=True)
class Finding:
    """One line of the report; a warning voids a theorem, an error breaks the protocol."""

    verdict: Verdict
    about: str
    text: str
    figures: Mapping[str, float | list[float]] = field(default_factory=dict)
    """The numbers of the text in full, by name."""


def breaches(parts: Parts) -> Iterator[str]:
    """Yield the errors that make the spec unplayable; no function is played."""
    return (finding.text for finding in protocol(parts, look=1) if finding.verdict == "error")


def connecting(window: int) -> str:
    """Return the meaning of a window B in words."""
    many = f"any {window} successive graphs together connect everyone"
    return "each graph connects everyone" if window == 1 else many


def protocol(parts: Parts, look: int) -> Iterator[Finding]:
    """Yield the findings that need no play; the graphs of the first `look` rounds are checked one by one."""
    yield Finding("ok", "Assumption 1 (set)", f"r(X) = {parts.set.inner:g}, R(X) = {parts.set.outer:g}")
    yield from _graph(parts, look)
    yield from _schedule(parts)
    yield from _gossip(parts)
    if parts.adversary.history > 0:
        text = f"the plugin reads {parts.adversary.history} rounds of decisions: every round waits for all agents"
        yield Finding("warning", "Adversary", text)
    yield _sealing(parts)
    if parts.spec.departures:
        first, gone = parts.spec.departures[0].round, sum(len(each.agents) for each in parts.spec.departures)
        text = f"{gone} of the agents leave, the first in round {first}: Theorems 1 to 4 speak of games that all play"
        yield Finding("warning", "Departures", text)


def _sealing(parts: Parts) -> Finding:
    if parts.spec.sealed:
        return Finding("ok", "Sealed game", "sealed: hosts get neither [adversary] nor its seed")
    text = 'open: run.seed draws the functions, and hosts know it; adversary.seed = "random" would seal it'
    return Finding("note", "Sealed game", text)


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
    name, last = parts.spec.graph.name, min(run.rounds or _CONNECT, _CONNECT)
    verdict: Verdict = "error"
    if (window := assumption4.window(graph, rounds)) is not None:
        verdict, text = "ok", f"{connecting(window)} (B = {window}) in {seen}"
    elif assumption4.connects(graph, last):
        text = f"the graphs of rounds 1 to {rounds} together do not connect; Theorems 1 to 4 need a window B"
        verdict = "warning"
    elif name == "none":
        text = 'graph.name = "none" lets nobody talk; name a graph, or set algorithm.mode = "local" to play alone'
    else:
        text = f'graph.name = "{name}" never connects the {run.agents} agents within {last} rounds; give it more edges'
    yield Finding(verdict, "Assumption 4 (window)", text)


def _gossip(parts: Parts) -> Iterator[Finding]:
    """Yield what the code promises, what a row takes, and whether the step is within its bound."""
    rows, section = parts.rows, parts.spec.gossip
    if rows is None:
        return
    about, omega, error, bits = "Gossip code", rows.omega, rows.error, rows.bits
    if omega is not None:
        yield Finding("ok", about, f"{section.code} is a contraction with omega = {omega:g}", {"omega": omega})
    elif error is not None:
        text = f"{section.code} is off by at most {error:g} in a coordinate in round 1"
        yield Finding("ok", about, text, {"error": error})
    else:
        yield Finding("note", about, f"{section.code} does not say what it promises: no bound on gossip.step is known")
    if bits is None:
        yield Finding("note", about, "how many bits a row takes depends on the rows of its frame")
    else:
        whole = 64 * rows.width
        text = f"{bits} bits per row, where its {rows.width} numbers take {whole}: {bits / whole:.3g} of them"
        yield Finding("note", about, text, {"bits": bits})
    if rows.bound is None or section.step is None:
        return
    formula = f"min(1, 2 omega / |I - W_t|) with omega = {1.0 if omega is None else omega:g}, |I - W_t| = {rows.norm:g}"
    figures = {"step": section.step, "bound": rows.bound, "norm": rows.norm}
    if section.step <= rows.bound:
        yield Finding("ok", "Gossip step", f"{section.step:g} <= {rows.bound:g} = {formula}", figures)
    else:
        text = f"gossip.step = {section.step:g} is above {rows.bound:g} = {formula}, and agents may drift apart"
        yield Finding("warning", "Gossip step", f"{text}; set it to {rows.bound:g} or leave it out", figures)


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
