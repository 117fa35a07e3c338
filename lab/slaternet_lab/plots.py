"""The paper's two figures, from run folders: cumulative loss and cumulative constraint violation over the rounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slaternet.model import Array
from slaternet_lab.folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito: told apart by readers who confuse red and green, and in grey."""
_LINES = ("-", "--", "-.")
_BASELINE = "#555555"
_POINTS = 4000
"""Points per curve; more than a figure has pixels across."""

_STYLE: Any = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.direction": "out",
    "legend.frameon": False,
    "legend.handlelength": 2.2,
}

_SUMS = r"\frac{1}{n}\,\sum_{i=1}^{n}\;\sum_{s=1}^{t}\;"
_FIGURES = (
    ("loss", rf"Cumulative loss   ${_SUMS} f_s(x_{{i,s}})$"),
    ("violation", rf"Cumulative violation   ${_SUMS} \|\,[g_s(x_{{i,s}})]_{{+}}\|$"),
)


def draw(runs: Sequence[Run], out_dir: Path) -> list[Path]:
    """Write loss.png and violation.png of the runs, overlaid, to `out_dir`; return their paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, label in _FIGURES:
        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(5.8, 4.0), dpi=200, layout="constrained")
            FigureCanvasAgg(figure)
            axes = figure.add_subplot()
            _curves(axes, runs, name)
            _dress(axes, label)
            columns = 3 if max(map(len, _legends(runs))) <= 20 else 1
            figure.legend(loc="outside upper left", ncols=columns)  # above the axes, where it hides no curve
            path = out_dir / f"{name}.png"
            figure.savefig(path)
        paths.append(path)
    return paths


def _curves(axes: "Axes", runs: Sequence[Run], name: str) -> None:
    for i, (run, legend) in enumerate(zip(runs, _legends(runs), strict=True)):
        rounds, values = _thinned(run, f"cumulative_{name}")
        line = _LINES[i // len(_COLOURS) % len(_LINES)]
        axes.plot(rounds, values, line, color=_COLOURS[i % len(_COLOURS)], linewidth=1.6, label=legend)
    for i, run in enumerate(_distinct_baselines(runs, name)):
        rounds, values = _thinned(run, f"zero_{name}")
        once = r"never moving, $x = 0$" if i == 0 else None
        axes.plot(rounds, values, linestyle=(0, (4, 2.5)), color=_BASELINE, linewidth=1.2, label=once, zorder=1.5)


def _dress(axes: "Axes", label: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlabel("Round $t$")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace(",", "\u2009")))
    axes.margins(x=0.0)
    axes.set_xlim(left=0)
    bottom, top = axes.get_ylim()
    axes.set_ylim(min(bottom, -0.02 * top), top)  # a baseline at 0 stays visible above the axis


def _legends(runs: Sequence[Run]) -> list[str]:
    """Name runs by algorithm, and by folder where several share one."""
    algorithms = [run.spec.algorithm.name.rpartition("/")[2] for run in runs]
    return [
        name if algorithms.count(name) == 1 else f"{name} ({run.name})"
        for name, run in zip(algorithms, runs, strict=True)
    ]


def _distinct_baselines(runs: Sequence[Run], name: str) -> list[Run]:
    """Return one run for each baseline: runs on the same functions share theirs."""
    distinct: dict[tuple[int, float], Run] = {}
    for run in runs:
        column = run.metrics.get(f"zero_{name}")
        if column is not None and len(column):
            distinct.setdefault((len(column), float(f"{column[-1]:.9g}")), run)
    return list(distinct.values())


def _thinned(run: Run, column: str) -> tuple[Array, Array]:
    """Return the rounds and values of a column without gaps, at most about `_POINTS` of them, the last included."""
    rounds, values = run.metrics["round"], run.metrics[column]
    kept = np.flatnonzero(np.isfinite(values))
    stride = 1 + len(kept) // _POINTS
    chosen = np.unique(np.append(kept[::stride], kept[-1:]))
    return rounds[chosen], values[chosen]
