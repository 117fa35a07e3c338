"""The theory's assumptions, checked on a spec: what breaks the protocol is an error, what voids a theorem a warning."""

from collections.abc import Iterable
from pathlib import Path

from slaternet.storage.disk import replace_file
from slaternet_adversary.plugin.makers import is_built_in
from slaternet_lab.specs.assemble import Parts
from slaternet_lab.specs.protocol import Finding, protocol

__all__ = ["FILE", "Finding", "examine", "write"]

FILE = "assumptions.txt"
"""Name of the report in a run folder."""

_LOOK = 256
"""Rounds whose graphs are checked one by one."""


def examine(parts: Parts, *, thorough: bool = False) -> list[Finding]:
    """Return the report on a spec: set, graphs and schedule, then, unless these break the protocol, the functions.

    The functions of some rounds are played, and `thorough` of more rounds, which may take two seconds. Those of a
    user's own plugin are played only if `thorough`: they may have side effects, which a run must not have twice.
    """
    found = list(protocol(parts, _LOOK))
    if any(finding.verdict == "error" for finding in found):
        return found
    if not thorough and not is_built_in(parts.spec.adversary.plugin):
        return [*found, Finding("note", "Functions", "not sampled: `slaternet check` samples those of your own plugin")]
    # here, because a solver takes long to load, and most commands need the protocol alone
    from slaternet_lab.assumptions.sampling import QUICK, THOROUGH, affordable, measure
    from slaternet_lab.assumptions.theory import judge

    sampling = THOROUGH if thorough else QUICK
    if not affordable(parts.spec, sampling):
        text = f"not sampled: agents times dimensions are more than {sampling.work}"
        return [*found, Finding("note", "Functions", text)]
    return found + judge(parts, measure(parts.spec, sampling), found)


def write(report: Iterable[Finding], folder: Path) -> None:
    """Write the report to a run folder, one line each: verdict, what it is about, and the figures."""
    lines = [f"{each.verdict:8}{each.about:24}{each.text}\n" for each in report]
    replace_file(folder / FILE, "".join(lines).encode())
