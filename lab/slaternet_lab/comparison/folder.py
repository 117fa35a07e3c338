"""The folder of a comparison: its games, which of them are finished, and the results of all.

comparison.json lists the games of the comparison from the start, so that the same command continues where it was
interrupted, and one with more seeds or contestants adds to it.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet.storage.disk import replace_file
from slaternet_lab.runs.run import Run

FILE, TABLE = "comparison.json", "comparison.csv"


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    label: str
    spec: Spec
    folder: Path

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.label}, seed {self.spec.run.seed}"

    @property
    def rounds(self) -> int:
        """T."""
        return self.spec.run.rounds or 0

    def finished(self) -> bool:
        """Whether its folder holds this very game, played to the end."""
        try:
            run = Run.open(self.folder)
            return bool(run.summary) and run.spec.digest() == self.spec.digest()
        except BadSpec:
            return False


class ComparisonFolder:
    """The folder in which games are played; `hosts` is the number of agent hosts, None where they are simulated."""

    def __init__(self, path: Path, games: Sequence[ComparedRun], hosts: int | None) -> None:
        self.path = path
        self._hosts = hosts
        self._games = [
            {
                "label": game.label,
                "seed": game.spec.run.seed,
                "folder": game.folder.relative_to(path).as_posix(),
                "spec": game.spec.digest(),
            }
            for game in games
        ]

    def claim(self, *, force: bool) -> dict[str, float]:
        """Make the folder; one that holds anything but a part of this comparison is refused unless forced.

        Return the offline optima that an earlier command found.
        """
        optima: dict[str, float] = {}
        try:
            if not force and self.path.is_dir() and any(self.path.iterdir()):
                optima = self._continued()
            self.path.mkdir(parents=True, exist_ok=True)
            self.write({"optima": optima})
        except OSError as error:
            raise BadSpec(f"cannot write the folder {self.path}: {error.strerror}; choose another --out") from None
        return optima

    def _continued(self) -> dict[str, float]:
        """Check that what the folder holds is a part of this comparison."""
        remedy = "choose another --out, or overwrite it with --force"
        try:
            held: dict[str, Any] = json.loads((self.path / FILE).read_text(encoding="utf-8"))
            before = {game["folder"]: game for game in held["games"]}
            optima: dict[str, float] = held.get("optima", {})
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            raise BadSpec(f"{self.path} holds other files than a comparison's; {remedy}") from None
        if held.get("hosts") != self._hosts:
            how = "over the network" if held.get("hosts") else "without a network"
            raise BadSpec(f"{self.path} holds a comparison that is played {how}, otherwise than this one; {remedy}")
        planned = {game["folder"]: game for game in self._games}
        for folder, game in before.items():
            if planned.get(folder) != game:
                why = "is not one of this comparison" if folder not in planned else "has another spec now"
                raise BadSpec(f"{self.path} holds another comparison: its run {folder} {why}; {remedy}")
        return optima

    def write(self, results: dict[str, Any], rows: Sequence[dict[str, object]] = ()) -> None:
        """Write comparison.json, whole or not at all, and comparison.csv where there are rows."""
        text = json.dumps({"hosts": self._hosts, "games": self._games, **results}, indent=2) + "\n"
        replace_file(self.path / FILE, text.encode())
        if rows:
            with (self.path / TABLE).open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
