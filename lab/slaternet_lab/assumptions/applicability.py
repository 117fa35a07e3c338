"""Which of Theorems 1 to 4 applies to a spec, and which assumption is missing where one does not.

    theorem   schedule     needs beyond Assumptions 1 to 4     regret             violation (Slater's condition)
    1         theorem1                                         T^max(c, 1 - c)    T^(1 - c/2)
    2         theorem1     Assumption 5                        T^max(c, 1 - c)    T^(1 - c)
    3         theorem1     Assumption 6                        T^(1 - c)          T^(1 - c/2)  (T^(1 - c))
    4         theorem4     Assumption 6, mu known              log T              sqrt(T log T)  (log T)

All need gamma_0 within its bound. Table II's schedule is Theorem 4's with mu = 1 and a smaller exploration radius.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slaternet_lab.assumptions.sampling import Figures
from slaternet_lab.specs.assemble import Parts
from slaternet_lab.specs.protocol import PAPER, Finding, Verdict

CLAIM = "Theorem 4 (mu)"
"""The subject of the finding on a claimed modulus."""

_ORDER: tuple[Verdict, ...] = ("ok", "note", "warning", "error")
_SCHEDULES = {1: ("theorem1",), 2: ("theorem1",), 3: ("theorem1",), 4: ("theorem4", "table2")}
_ALL = ("Assumption 3", "Assumption 4", "Schedule", "gamma_0")
_NEEDS = {1: _ALL, 2: (*_ALL, "Assumption 5"), 3: (*_ALL, "Assumption 6"), 4: (*_ALL, "Assumption 6", CLAIM)}
_FAILURES = {
    "Schedule": "a sequence runs the wrong way",
    "gamma_0": "gamma_0 is not within its bound",
    CLAIM: "mu is not the losses'",
}


def claimed_modulus(parts: Parts) -> float | None:
    """Return the modulus that a schedule of Algorithm 1 assumes, or None."""
    algorithm = parts.spec.algorithm
    if algorithm.name != PAPER:
        return None
    claims: dict[str, Any] = {"theorem4": algorithm.numbers.get("mu"), "table2": 1.0}
    claim = claims.get(algorithm.schedule)
    return None if claim is None else float(claim)


def theorems(parts: Parts, figures: Figures, findings: Sequence[Finding]) -> list[Finding]:
    """Return one line for each theorem; none for another algorithm than the paper's."""
    algorithm = parts.spec.algorithm
    if algorithm.name != PAPER:
        return []
    if algorithm.mode in ("local", "central"):
        text = f"speak of agents that gossip, not of algorithm.mode = {algorithm.mode}"
        return [Finding("note", "Theorems 1 to 4", text)]
    if parts.rows is not None:
        text = f"speak of rows that arrive as they are, not of {parts.rows.named}"
        return [Finding("note", "Theorems 1 to 4", text)]
    state = _state(figures, findings)
    exponent = float(str(algorithm.numbers.get("c", 0.5)))
    # where no point at all is feasible, every theorem lacks that
    always = {"Assumption 5"} if figures.slater and figures.slater.limit < -figures.slater.tolerance else set()
    lines = {}
    for theorem, schedules in _SCHEDULES.items():
        if algorithm.schedule in schedules:
            needed = {need: state[need] for need in dict.fromkeys((*_NEEDS[theorem], *always))}
            lines[theorem] = _line(needed, _rates(theorem, exponent, slater=state["Assumption 5"] == "ok"))
        else:
            lines[theorem] = "note", f"is about algorithm.schedule = {schedules[0]}, not {algorithm.schedule}"
    some = any(verdict == "ok" for verdict, _ in lines.values())  # then the spec is not about the others
    return [
        Finding("note" if some and verdict == "warning" else verdict, f"Theorem {theorem}", text)
        for theorem, (verdict, text) in lines.items()
    ]


def _state(figures: Figures, findings: Sequence[Finding]) -> Mapping[str, Verdict]:
    """Return the verdict on each need: the worst of the findings about it."""
    state: dict[str, Verdict] = dict.fromkeys((*_ALL, "Assumption 5", CLAIM), "ok")
    for finding in findings:
        for need in state:
            if finding.about.startswith(need):
                state[need] = max(state[need], finding.verdict, key=_ORDER.index)
    state["Assumption 6"] = "note" if figures.modulus is None else "ok" if figures.modulus > 0.0 else "warning"
    return state


def _line(state: Mapping[str, Verdict], rates: str) -> tuple[Verdict, str]:
    failing = [_FAILURES.get(need, f"{need} fails") for need, verdict in state.items() if verdict == "warning"]
    unknown = [need for need, verdict in state.items() if verdict == "note"]
    if failing:
        return "warning", f"does not apply: {', '.join(failing)}"
    if unknown:
        return "note", f"depends on {' and '.join(unknown)}, not examined here; it gives {rates}"
    return "ok", f"applies as far as sampled: {rates}"


def _rates(theorem: int, c: float, *, slater: bool) -> str:
    """Return the theorem's bounds; c is the exponent of theorem1's schedule."""
    if theorem == 4:
        return f"regret O(log T), violation O({'log T' if slater else 'sqrt(T log T)'})"
    regret = 1.0 - c if theorem == 3 else max(c, 1.0 - c)
    violation = 1.0 - c if theorem == 2 or (theorem == 3 and slater) else 1.0 - c / 2.0
    return f"regret O(T^{regret:g}), violation O(T^{violation:g})"
