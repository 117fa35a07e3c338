"""Figures: the paper's two, cumulative loss and constraint violation over the rounds, and the regret curve."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Array
from slaternet.spec import Spec
from slaternet.storage.disk import replacing
from slaternet_lab.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito: distinct in grey, and for readers who confuse red and green."""
_LINES = ("-", "--", "-.")
BASELINE: Any = {"linestyle": (0, (4, 2.5)), "color": "#555555", "linewidth": 1.2, "zorder": 1.5}
"""The style of the baseline that never moves."""
_HEIGHT = 4.0
"""Inches of a figure with up to two lines of legend."""
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
FIGURES = (
    ("loss", rf"Cumulative loss   ${_SUMS} f_s(x_{{i,s}})$"),
    ("violation", rf"Cumulative violation   ${_SUMS} \|\,[g_s(x_{{i,s}})]_{{+}}\|$"),
)
"""Names of the figures, and the labels of their vertical axes."""


def draw(runs: Sequence[Run], out_dir: Path) -> list[Path]:
    """Write loss.png and violation.png of the runs, overlaid, to `out_dir`; return their paths."""
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, label in FIGURES:
        paths.append(out_dir / f"{name}.png")
        with rounds_figure(paths[-1], label) as axes:
            _paint(axes, runs, name)
    return paths


def _paint(axes: "Axes", runs: Sequence[Run], name: str) -> None:
    for i, (run, legend) in enumerate(zip(runs, _legends(runs), strict=True)):
        axes.plot(*thinned(run, f"cumulative_{name}"), **curve_style(i), label=legend)
    named: set[str] = set()
    for run in _distinct_baselines(runs, name):
        resting = baseline(run.spec)
        axes.plot(*thinned(run, f"zero_{name}"), **BASELINE, label=None if resting in named else resting)
        named.add(resting)


def baseline(spec: Spec) -> str:
    """Return what the baseline of a game does, for legends; without dollar signs, for texts.

    It never leaves the centre of X, and that is 0 only where 0 is inside X.
    """
    return "never moving, $x =$ centre of $X$" if spec.feasible_set().centre.any() else "never moving, $x = 0$"


@contextlib.contextmanager
def rounds_figure(path: Path, label: str, over: str = "") -> Iterator["Axes"]:
    """Yield axes over the rounds, or `over` what the block scales, and write the figure after the block."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    with new_figure(path) as (figure, axes):
        yield axes
        legends = axes.get_legend_handles_labels()[1]
        longest = max((len(each.replace("$", "")) for each in legends), default=0)
        columns = 3 if longest <= 20 else 2 if longest <= 34 else 1
        figure.set_figheight(_HEIGHT + 0.22 * max(0, -(-len(legends) // columns) - 2))
        axes.set_xlabel(over or "Round $t$")
        axes.set_ylabel(label)
        if not over:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace(",", "\u2009")))
        axes.margins(x=0.0)
        if not over:
            axes.set_xlim(left=0)
        bottom, top = axes.get_ylim()
        axes.set_ylim(min(bottom, -0.02 * top), top)  # a baseline at 0 stays visible above the axis
        figure.legend(loc="outside upper left", ncols=columns)  # above the axes, where it hides no curve


@contextlib.contextmanager
def new_figure(path: Path) -> Iterator[tuple["Figure", "Axes"]]:
    """Yield a figure in the house style and its bare axes, and write it after the block."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.8, _HEIGHT), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.add_subplot()
        with replacing(path) as file:
            figure.savefig(file, format="png")


def draw_regret(rounds: NDArray[np.int64], regret: Array, path: Path) -> None:
    """Write a figure of the regret of prefixes of a game."""
    with new_figure(path) as (_, axes):
        axes.plot(rounds, regret, marker="o", markersize=3.5, **curve_style(0))
        axes.set_xscale("log")
        if np.all(regret > 0.0):
            axes.set_yscale("log")  # a power of T is then a straight line
        else:
            axes.axhline(0.0, color="#555555", linewidth=0.8)
        axes.set_xlabel("Rounds $T$")
        axes.set_ylabel(r"Regret   $\mathrm{Net\text{-}Reg}(T)$")


def curve_style(i: int) -> Any:  # noqa: ANN401  keywords of matplotlib
    """Return the style of the i-th curve of a figure."""
    line = _LINES[i // len(_COLOURS) % len(_LINES)]
    return {"linestyle": line, "color": _COLOURS[i % len(_COLOURS)], "linewidth": 1.6}


def _legends(runs: Sequence[Run]) -> list[str]:
    """Name runs by algorithm, and by folder where several share one."""
    algorithms = [run.spec.algorithm.name.rpartition("/")[2] for run in runs]
    named = zip(algorithms, runs, strict=True)
    return [name if algorithms.count(name) == 1 else f"{name} ({run.name})" for name, run in named]


def _distinct_baselines(runs: Sequence[Run], name: str) -> list[Run]:
    """Return one run for each baseline: runs on the same functions share theirs."""
    distinct: dict[tuple[int, float], Run] = {}
    for run in runs:
        column = run.metrics.get(f"zero_{name}")
        if column is not None and len(column):
            distinct.setdefault((len(column), float(f"{column[-1]:.9g}")), run)
    return list(distinct.values())


def thinned(run: Run, column: str) -> tuple[Array, Array]:
    """Return the rounds and values of a column without gaps, at most about `_POINTS` of them.

    The first and the last are among them, and of each stretch of rounds the lowest and the highest value.
    """
    rounds, values = run.metrics["round"], run.metrics[column]
    kept = np.flatnonzero(np.isfinite(values))
    if len(kept) > _POINTS:
        width = -(-2 * len(kept) // _POINTS)
        stretches = np.append(kept, np.repeat(kept[-1:], -len(kept) % width)).reshape(-1, width)
        extremes = [by(values[stretches], axis=1, keepdims=True) for by in (np.argmin, np.argmax)]
        ends = [np.take_along_axis(stretches, places, axis=1).ravel() for places in extremes]
        kept = np.unique(np.concatenate((kept[:1], *ends, kept[-1:])))
    return rounds[kept], values[kept]
