"""The theory's assumptions, checked on a spec: what breaks the protocol is an error, what voids a theorem a warning."""

from collections.abc import Iterable
from pathlib import Path

from slaternet_adversary.plugin.makers import is_built_in
from slaternet_lab.specs.assemble import Parts
from slaternet_lab.specs.protocol import Finding, protocol

__all__ = ["FILE", "Finding", "examine", "write"]

FILE = "assumptions.txt"
"""Name of the report in a run folder."""

_LOOK = 256
"""Rounds whose graphs are looked at one by one."""


def examine(parts: Parts, *, thorough: bool = False) -> list[Finding]:
    """Return the report on a spec: set, graphs and schedule, then, unless these break the protocol, the functions.

    The functions of some rounds are played, of more rounds where it may take a second or two (`thorough`). Those of a
    user's own plugin are played only on request: they may leave traces, which a run must not have twice.
    """
    found = list(protocol(parts, _LOOK))
    if any(finding.verdict == "error" for finding in found):
        return found
    if not thorough and not is_built_in(parts.spec.adversary.plugin):
        return [*found, Finding("note", "Functions", "not sampled: `slaternet check` samples those of your own plugin")]
    # here, because a solver takes long to load, and most commands only look for breaches
    from slaternet_lab.assumptions import sampling as functions
    from slaternet_lab.assumptions import theory

    sampling = functions.THOROUGH if thorough else functions.QUICK
    if not functions.affordable(parts.spec, sampling):
        text = f"not sampled: agents times dimensions are more than {sampling.work}"
        return [*found, Finding("note", "Functions", text)]
    return found + theory.judge(parts, functions.measure(parts.spec, sampling), found)


def write(report: Iterable[Finding], folder: Path) -> Path:
    """Write the report to a run folder, one line each: verdict, what it is about, and the figures."""
    path = folder / FILE
    lines = [f"{each.verdict:8}{each.about:24}{each.text}\n" for each in report]
    path.write_text("".join(lines), encoding="utf-8")
    return path
