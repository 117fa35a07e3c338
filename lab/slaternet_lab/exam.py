"""The exam of an adversary with what the theorems need of its functions, sampled."""

from collections.abc import Iterator

from slaternet.errors import PluginFailed
from slaternet.spec import Spec
from slaternet_adversary.testing import Line
from slaternet_adversary.testing import examine as take
from slaternet_lab.assumptions.functions import QUICK, Figures, affordable, measure


def examine(spec: Spec) -> list[Line]:
    """Return the report on a spec's adversary: its exam, then F, G1, G2, mu and the theorems they allow."""
    report = take(spec)
    failed = next((line.about for line in report if line.verdict == "failed"), "")
    if failed:
        return [*report, Line("note", "theorems", f"not examined: correct {failed} first")]
    if not affordable(spec, QUICK):
        text = f"not sampled: agents times dimensions are more than {QUICK.work}"
        return [*report, Line("note", "theorems", text)]
    slater = next(line.verdict == "ok" for line in report if line.about == "feasible")
    try:
        return [*report, *_theory(measure(spec, QUICK), slater=slater)]
    except PluginFailed as error:
        return [*report, Line("failed", "theorems", str(error))]


def _theory(figures: Figures, *, slater: bool) -> Iterator[Line]:
    """Yield what was sampled, and what it is good for."""
    yield Line("note", "bound", f"F >= {figures.bound:.5g}, the largest |f| sampled (Assumption 2)")
    slopes = (("G1", "|df|", figures.loss_slope), ("G2", "|dg|", figures.constraint_slope))
    known = [f"{name} >= {slope:.5g}, the largest {what}" for name, what, slope in slopes if slope is not None]
    text = "; ".join(known) or "not examined: the dimensions are too many for differences"
    yield Line("note", "slopes", f"{text} (Assumption 3)")
    strong = figures.modulus is not None and figures.modulus > 0.0
    yield Line("note", "modulus", f"{_modulus(figures)} (Assumption 6)")
    yield Line("note", "theorems", _theorems(slater=slater, strong=strong))


def _modulus(figures: Figures) -> str:
    if figures.modulus is None or figures.average_modulus is None:
        return "not examined: there is no loss_gradient, and the dimensions are too many for differences"
    sign = "=" if figures.exact_modulus else "<="
    if figures.modulus > 0.0:
        return f"losses are strongly convex, mu {sign} {figures.modulus:.5g}"
    return f"some loss is not strongly convex; of their average mu {sign} {figures.average_modulus:.5g}"


def _theorems(*, slater: bool, strong: bool) -> str:
    """Say which theorems the functions allow; graph, schedule and gamma_0 are the spec's."""
    holds = {1: True, 2: slater, 3: strong, 4: strong}
    good = [str(theorem) for theorem, each in holds.items() if each]
    text = f"as far as sampled, the functions are what Theorem{'s' * (len(good) > 1)} {_listed(good)} need"
    lacks = [name for name, each in (("Slater's condition", slater), ("strong convexity", strong)) if not each]
    return f"{text}; they lack {_listed(lacks)}" if lacks else text


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
