"""The folder of a comparison: its games, which of them are finished, and the results of all.

comparison.json lists the games of the comparison from the start, so that the same command continues where it was
interrupted, and one with more seeds or contestants adds to it.
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet.storage.disk import refuse_link, replace_file
from slaternet.storage.files import read_json
from slaternet_lab.runs.run import Run

FILE, TABLE = "comparison.json", "comparison.csv"


class _HeldGame(BaseModel):
    """A game of comparison.json."""

    model_config = ConfigDict(strict=True)

    label: str
    seed: int
    folder: str
    spec: str


class _Held(BaseModel):
    """The keys of comparison.json that are read."""

    model_config = ConfigDict(strict=True)

    hosts: int | None = None
    adversary_seed: int | None = None
    games: list[_HeldGame]
    optima: dict[str, float] = {}


_HELD = TypeAdapter(_Held)


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


def drawn_before(path: Path) -> int | None:
    """Return the adversary.seed with which the comparison in a folder began; None where none is known."""
    try:
        return read_json(path / FILE, _HELD, "is damaged").adversary_seed
    except (OSError, BadSpec):
        return None  # `ComparisonFolder.claim` says what is wrong with it


class ComparisonFolder:
    """The folder in which games are played; `hosts` is the number of agent hosts, None where they are simulated."""

    def __init__(self, path: Path, games: Sequence[ComparedRun], hosts: int | None) -> None:
        self.path = path
        self._hosts = hosts
        self._adversary_seed = games[0].spec.adversary.seed
        self._folders = [game.folder for game in games]
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
            for folder in self._folders:
                for part in (folder, *folder.parents):
                    if self.path in part.parents:
                        refuse_link(part)
            self.write({"optima": optima})
        except OSError as error:
            raise BadSpec(f"cannot write the folder {self.path}: {error.strerror}; choose another --out") from None
        return optima

    def _continued(self) -> dict[str, float]:
        """Check that what the folder holds is a part of this comparison."""
        remedy = "choose another --out, or overwrite it with --force"
        try:
            held = read_json(self.path / FILE, _HELD, "is damaged")
        except BadSpec:
            raise BadSpec(f"{self.path} holds other files than a comparison's; {remedy}") from None
        before = {game.folder: game.model_dump() for game in held.games}
        if held.hosts != self._hosts:
            how = "over the network" if held.hosts else "without a network"
            raise BadSpec(f"{self.path} holds a comparison that is played {how}, otherwise than this one; {remedy}")
        planned = {game["folder"]: game for game in self._games}
        for folder, game in before.items():
            if planned.get(folder) != game:
                why = "is not one of this comparison" if folder not in planned else "has another spec or other code now"
                raise BadSpec(f"{self.path} holds another comparison: its run {folder} {why}; {remedy}")
        return held.optima

    def write(self, results: dict[str, Any], rows: Sequence[dict[str, object]] = ()) -> None:
        """Write comparison.json, whole or not at all, and comparison.csv where there are rows."""
        head = {"hosts": self._hosts, "adversary_seed": self._adversary_seed, "games": self._games}
        text = json.dumps({**head, **results}, indent=2) + "\n"
        replace_file(self.path / FILE, text.encode())
        if rows:
            table = io.StringIO()
            writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            replace_file(self.path / TABLE, table.getvalue().encode())
