"""Figures of a comparison: the mean of every contestant over its seeds, within a band of one standard deviation."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slaternet_lab.comparison.standings import Curve, MeanCurves
from slaternet_lab.runs.plots import BASELINE, FIGURES, curve_style, rounds_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SAME = 1e-9
"""Relative difference below which two curves are one."""


def draw(means: Sequence[MeanCurves], folder: Path, *, computed: bool) -> None:
    """Write loss.png and violation.png; where a contestant has a gossip code, also over the bytes of rows.

    Bytes are told by hosts, or else `computed`: each row once, without the heads of frames.
    """
    sending = [each for each in means if each.sent is not None and each.sent[-1] > 0.0]
    over = "Bytes of rows, each counted once (computed)" if computed else "Bytes of gossip messages"
    for name, label in FIGURES:
        with rounds_figure(folder / f"{name}.png", label) as axes:
            _paint(axes, means, name)
        if any(not each.plain for each in sending):
            with rounds_figure(folder / f"{name}-bytes.png", label, over) as axes:
                _paint_bytes(axes, sending, name)


def _paint(axes: "Axes", means: Sequence[MeanCurves], name: str) -> None:
    # a contestant that does what the baseline does is drawn as one
    pairs = [(f"cumulative_{each}", f"zero_{each}") for each, _ in FIGURES]
    resting = [each for each in means if all(_is_same(each.curves[own], each.curves[zero]) for own, zero in pairs)]
    moving = [each for each in means if each not in resting]
    for i, each in enumerate([*moving, *resting]):
        moves = i < len(moving)
        style, label = (curve_style(i), each.label) if moves else (BASELINE, f"{each.label}: {each.baseline}")
        _band(axes, each.curves[f"cumulative_{name}"], style, label)
    drawn = [each.curves[f"zero_{name}"] for each in resting]
    named: set[str] = set()
    for each in moving:
        curve = each.curves[f"zero_{name}"]
        if not any(_is_same(curve, other) for other in drawn):  # contestants on the same functions share theirs
            _band(axes, curve, BASELINE, None if each.baseline in named else each.baseline)
            drawn.append(curve)
            named.add(each.baseline)


def _paint_bytes(axes: "Axes", sending: Sequence[MeanCurves], name: str) -> None:
    # on a logarithmic axis: contestants differ by factors, and what they have sent before the first round scored is 0
    axes.set_xscale("log")
    for i, each in enumerate(sending):
        curve, sent = each.curves[f"cumulative_{name}"], each.sent
        if sent is not None:
            _band(axes, Curve(sent[curve.rounds - 1], curve.mean, curve.deviation), curve_style(i), each.label)


def _band(axes: "Axes", curve: Curve, style: dict[str, Any], label: str | None) -> None:
    axes.plot(curve.rounds, curve.mean, label=label, **style)
    if curve.deviation.any():
        low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
        axes.fill_between(curve.rounds, low, high, color=style["color"], alpha=0.2, linewidth=0.0)


def _is_same(a: Curve, b: Curve) -> bool:
    return len(a.rounds) == len(b.rounds) and bool(np.allclose(a.mean, b.mean, rtol=_SAME, atol=0.0))
