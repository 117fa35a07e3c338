"""The report: what was tried, what came of it, and on what machine."""

import json
import os
import platform
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

LIBRARIES = ("slaternet", "grpcio", "protobuf", "numpy")

Figures = dict[str, Any]
Say = Callable[[str], None]


class Skipped(Exception):
    """A part that cannot be tried here; the text says why."""


@dataclass(slots=True)
class Part:
    """What one part of the report says."""

    name: str
    seconds: float = 0.0
    figures: Figures = field(default_factory=dict)
    skipped: str = ""
    failures: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """How it went, in a word."""
        if self.skipped:
            return "skipped"
        return "failed" if self.failures else "held"


def tried(name: str, attempt: Callable[[Figures, Say], None], say: Say) -> Part:
    """Try one part; what it raises is its failure, and the parts that follow are tried all the same."""
    part = Part(name)
    began = time.monotonic()
    say(f"{name}: begun")
    try:
        attempt(part.figures, lambda words: say(f"{name}: {words}"))
    except Skipped as reason:
        part.skipped = str(reason)
    except Exception as error:  # whatever breaks is what the report is for
        part.failures.append(f"{type(error).__name__}: {error}")
        say(traceback.format_exc())
    part.seconds = round(time.monotonic() - began, 1)
    say(f"{name}: {part.verdict} after {part.seconds:.0f} s {part.skipped}")
    return part


def summed_up(parts: list[Part]) -> Figures:
    """Return the report as it is written."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "held": not any(part.failures for part in parts),
        "complete": not any(part.skipped for part in parts),
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "load": [round(x, 2) for x in os.getloadavg()],
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "parts": {
            part.name: {
                "verdict": part.verdict,
                "seconds": part.seconds,
                **part.figures,
                **({"skipped": part.skipped} if part.skipped else {}),
                **({"failures": part.failures} if part.failures else {}),
            }
            for part in parts
        },
    }


def write(report: Figures, path: Path) -> None:
    """Write the report, whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(json.dumps(report, indent=2) + "\n")
    draft.replace(path)


def show(parts: list[Part], console: Console) -> None:
    """Print the report as a table."""
    table = Table("part", "verdict", "seconds", "figures")
    for part in parts:
        shown = part.skipped or "; ".join([*part.failures, *(_words(*each) for each in part.figures.items())])
        table.add_row(part.name, part.verdict, f"{part.seconds:.0f}", shown)
    console.print(table)


def _words(name: str, figure: object) -> str:
    if isinstance(figure, dict):
        figure = ", ".join(f"{key} {value}" for key, value in figure.items())
    return f"{name.replace('_', ' ')} {figure}"
