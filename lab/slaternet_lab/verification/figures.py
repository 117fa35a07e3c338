"""The figure of a study: growth with the horizon on logarithmic axes, where a power of T is a straight line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slaternet.model import Array
from slaternet_lab.runs.plots import curve_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slaternet_lab.verification.studies import Study

_GUIDE: Any = {"color": "#999999", "linewidth": 0.9, "linestyle": ":"}


def draw(study: "Study", path: Path) -> None:
    """Write the figure of one theorem: means over seeds with their spread, and dotted lines of the bounds."""
    with new_figure(path) as (figure, axes):
        colour = 0
        for series in study.series:
            for name, values in (("violation", series.violation), ("regret", series.regret)):
                if values is not None and values.mean(axis=0).min() > 0.0:
                    _curve(axes, study, values, f"{name}, {series.label}", curve_style(colour))
                colour += values is not None
        _guides(axes, study)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("Rounds $T$")
        axes.set_ylabel(f"Theorem {study.theorem}: cumulative until $T$")
        if axes.lines:
            figure.legend(loc="outside upper left", ncols=2)


def _curve(axes: "Axes", study: "Study", values: Array, label: str, style: dict[str, Any]) -> None:
    axes.plot(study.horizons, values.mean(axis=0), marker="o", markersize=3.5, label=label, **style)
    if len(values) > 1:
        low, high = np.quantile(values, [0.1, 0.9], axis=0)
        if low.min() > 0.0:
            axes.fill_between(study.horizons, low, high, color=style["color"], alpha=0.2, linewidth=0.0)


def _guides(axes: "Axes", study: "Study") -> None:
    """Draw each bound through the last value of what it bounds."""
    ours, horizons = study.series[0], study.horizons
    for finding in study.findings:
        values = ours.violation if finding.quantity == "violation" else ours.regret
        if values is None or not values.mean(axis=0).min() > 0.0:
            continue
        shape = finding.growth(horizons)
        axes.plot(horizons, values[:, -1].mean() * shape / shape[-1], **_GUIDE)
        axes.annotate(f" {finding.bound}", (horizons[0], values[:, -1].mean() * shape[0] / shape[-1]), fontsize=8)
