"""Findings from the sampled functions on Assumptions 2, 3, 5 and 6 and on the bound of gamma_0."""

import math
from collections.abc import Iterator, Sequence

from slaternet_adversary.plugin.calls import written
from slaternet_agent.registry import numbers_of_schedule
from slaternet_lab.assumptions import applicability
from slaternet_lab.assumptions.sampling import Figures
from slaternet_lab.specs.assemble import Parts
from slaternet_lab.specs.protocol import PAPER, Finding

_SIGMAS = {"square": 2.0, "half-square": 1.0}
"""The strong convexity of yi2024's psi."""
_SAME = 1e-9
"""Relative difference of numbers that are the same."""
_LAST = 1 << 20
"""The last round to check of a game without end."""


def judge(parts: Parts, figures: Figures, before: Sequence[Finding]) -> list[Finding]:
    """Return the findings on the functions; `before` are those on the set, the graphs and the schedule."""
    found = [
        _sampled(parts, figures),
        *_bounds(figures),
        _convexity(figures),
        _slater(figures),
        _modulus(parts, figures),
        *_dual_step(parts, figures),
        *_claimed(parts, figures),
        *_claimed_bounds(parts, figures),
    ]
    return found + applicability.theorems(parts, figures, [*before, *found])


def _sampled(parts: Parts, figures: Figures) -> Finding:
    first, last = figures.rounds[0], figures.rounds[-1]
    rounds = f"{len(figures.rounds)} rounds from {first} to {last}" if last > first else f"round {first}"
    text = f"sampled in {rounds}: {figures.agents} of {parts.spec.run.agents} agents at {figures.points} points of X"
    if parts.adversary.history:
        text += "; later rounds depend on decisions"
    return Finding("note", "Functions", text, {"rounds": [float(t) for t in figures.rounds]})


def _bounds(figures: Figures) -> Iterator[Finding]:
    yield Finding("ok", "Assumption 2 (bound)", f"F >= {figures.bound:.5g}, the largest |f|", {"F": figures.bound})
    for name, what, method, slope, exact in (
        ("G1", "|df|", "loss_gradient", figures.loss_slope, figures.exact_loss),
        ("G2", "|dg|", "constraint_gradient", figures.constraint_slope, figures.exact_constraint),
    ):
        about, how = "Assumption 3 (slopes)", "" if exact else ", by differences of values"
        if slope is None:
            text = (
                f"{name} is not examined: the plugin has no {method}, and the dimensions are too many for differences"
            )
            yield Finding("note", about, text)
        else:
            yield Finding("ok", about, f"{name} >= {slope:.5g}, the largest {what}{how}", {name: slope})


def _convexity(figures: Figures) -> Finding:
    about, void = "Assumption 3 (convex)", "so it is not convex; Theorems 1 to 4 do not apply"
    if figures.not_convex:
        return Finding("warning", about, f"{figures.not_convex} lies above a chord, {void}")
    if figures.modulus is not None and figures.modulus < 0.0:
        return Finding("warning", about, f"an f has curvature {figures.modulus:.5g}, {void}")
    return Finding("ok", about, "no f or g lies above a chord")


def _slater(figures: Figures) -> Finding:
    about, found = "Assumption 5 (Slater)", figures.slater
    if found is None:
        return Finding("ok", about, "there are no constraints")
    numbers: dict[str, float | list[float]] = {"margin": found.margin, "point": [float(each) for each in found.point]}
    solved = math.isfinite(found.limit)
    if solved:
        numbers["limit"] = found.limit
    if found.margin > found.tolerance:
        best = "the largest margin" if found.limit - found.margin <= found.tolerance else "the best point found"
        return Finding("ok", about, f"g <= -{found.margin:.5g} at x = {written(found.point, shown=4)}, {best}", numbers)
    if found.limit < -found.tolerance:
        text = f"every point of X has some g >= {-found.limit:.5g}, so that none is feasible and regret is undefined"
        return Finding("warning", about, f"{text}; Theorems 1 to 4 do not apply", numbers)
    if found.limit <= found.tolerance:
        text = "no point of X has g < 0; Theorem 2 and the smaller bounds of Theorems 3 and 4 on violation do not apply"
        return Finding("warning", about, text, numbers)
    why = "the search ended early" if solved else "the plugin has neither linear nor constraint_gradient"
    return Finding("note", about, f"not examined: no point sampled has g < 0, and {why}", numbers)


def _modulus(parts: Parts, figures: Figures) -> Finding:
    about, local, average = "Assumption 6 (modulus)", figures.modulus, figures.average_modulus
    if local is None or average is None:
        text = "not examined: the plugin has no loss_gradient, and the dimensions are too many for differences"
        return Finding("note", about, text)
    numbers: dict[str, float | list[float]] = {"mu": local, "average mu": average}
    sign = "=" if figures.exact_modulus else "<="
    if local > 0.0:
        text = f"mu {sign} {local:.5g} of the local losses, {sign} {average:.5g} of their average"
        return Finding("ok", about, text, numbers)
    claim = applicability.claimed_modulus(parts)
    text = f"local losses are not strongly convex (their average: mu {sign} {average:.5g})"
    if claim is not None:
        schedule = parts.spec.algorithm.schedule
        text = f"{text}, but schedule {schedule} takes mu = {claim:g}"
    if parts.spec.algorithm.name == PAPER:
        text = f"{text}; Theorems 3 and 4 do not apply"
    return Finding("note" if claim is None else "warning", about, text, numbers)


def _claimed_bounds(parts: Parts, figures: Figures) -> Iterator[Finding]:
    """Compare the bounds that a schedule is given, or assumes, with what was sampled."""
    slopes = [each for each in (figures.loss_slope, figures.constraint_slope) if each is not None]
    sampled = {"gradient_bound": max(slopes, default=None), "value_bound": figures.bound}
    for name, default in numbers_of_schedule(parts.spec.algorithm).items():
        claim, least = parts.spec.algorithm.numbers.get(name, default), sampled.get(name)
        if isinstance(claim, int | float) and least is not None and claim < least:
            text = f"{claim:g} is less than {least:.5g}, which was sampled: {parts.spec.algorithm.name} may be useless"
            yield Finding("warning", f"algorithm.{name}", f"{text}; raise it")


def _dual_step(parts: Parts, figures: Figures) -> Iterator[Finding]:
    """Compare gamma_0 = gamma_t alpha_t with its bound: 1/(4 (p^2 + 1) G2^2), and sigma/(4 G2^2) of yi2024."""
    algorithm, p, slope = parts.spec.algorithm, parts.spec.run.dimension, figures.constraint_slope
    if algorithm.name == PAPER:
        factor, formula, whose = 4.0 * (p * p + 1.0), "1/(4 (p^2 + 1) G2^2)", "Theorems 1 to 4"
    elif algorithm.name == "yi2024":
        factor = 4.0 / _SIGMAS[str(algorithm.numbers.get("psi", "square"))]
        formula, whose = "sigma/(4 G2^2)", "the theorems of Yi et al. 2024"
    else:
        return
    gamma0, last = (step.alpha * step.gamma for step in map(parts.schedule.step, (1, parts.spec.run.rounds or _LAST)))
    if not math.isclose(gamma0, last, rel_tol=_SAME):
        yield Finding("warning", "gamma_0", f"gamma_t alpha_t is not constant; {whose} need gamma_t = gamma_0/alpha_t")
        return
    if slope is None:
        yield Finding("note", "gamma_0", f"{gamma0:g}; its bound {formula} is not examined, because G2 is not")
        return
    ratio = gamma0 * factor * slope * slope
    numbers: dict[str, float | list[float]] = {"gamma_0": gamma0, "ratio": ratio}
    if ratio > 1.0:
        text = (
            f"{gamma0:g} is {ratio:.4g} or more times its bound {formula} = {gamma0 / ratio:.3g}; {whose} do not apply"
        )
        yield Finding("warning", "gamma_0", text, numbers)
    else:
        yield Finding("ok", "gamma_0", f"{gamma0:g} is {ratio:.4g} times its bound {formula} with this G2", numbers)


def _claimed(parts: Parts, figures: Figures) -> Iterator[Finding]:
    """Warn where the schedule of Theorem 4 claims more strong convexity than there is."""
    claim, found = applicability.claimed_modulus(parts), figures.modulus
    if claim is None or found is None or found <= 0.0 or claim <= found * (1.0 + _SAME):
        return
    schedule = parts.spec.algorithm.schedule
    text = f"schedule {schedule} takes mu = {claim:g}, above the modulus {found:.5g}; Theorem 4 does not apply"
    yield Finding("warning", applicability.CLAIM, text, {"claimed mu": claim})
