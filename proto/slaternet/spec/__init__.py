"""The run spec, a TOML file that determines every bit of a game.

    [run] name, agents, rounds (absent: until stopped), dimension, seed, reproducible
    [set] kind and its numbers              [algorithm] name, schedule and their numbers
    [feedback] what is granted per round    [question] what the algorithm asks for, filled in
    [graph] name and its numbers            [gossip] the code of the rows that agents exchange, and its numbers
    [[departures]] round, agents: these agents do not play from that round on
    [adversary] plugin, isolation, options, seed, segments    [record] decisions, score_every

Hosts get all but the last two sections: a `PublicSpec`.

This module checks keys and ranges. The names and their numbers are checked where a name is looked up: feasible sets,
schedules, algorithms, graphs, plugins.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from slaternet.errors import BadSpec
from slaternet.fields import expected
from slaternet.limits import LIMITS
from slaternet.model import Departure
from slaternet.numerics.sets import FeasibleSet, make_set
from slaternet.spec.overrides import assign, read
from slaternet.spec.programs import is_program, words
from slaternet.suggestions import suggestion

_NAME = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{LIMITS.name_bytes - 1}}}$"

_SHA256 = r"^([0-9a-f]{64})?$"

_PATTERNS = {
    "name": f"1 to {LIMITS.name_bytes} letters, digits, dots, dashes or underscores",
    "sha256": "64 hexadecimal digits",
}


CHANGEABLE = ("adversary.seconds", "adversary.memory")
"""Limits of a plugin, which may change while a game is played: they decide no number of it."""

RANDOM = "random"
"""In place of adversary.seed: it is drawn when the game is started."""

_SEEDS = 1 << 63


def _check_seed(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _SEEDS
    if not number and value is not None and value != RANDOM:
        raise ValueError(f' must be a whole number from 0 to {_SEEDS - 1}, or "{RANDOM}", not {repr(value)[:60]}')
    return value


def _printable(name: str) -> str:
    """Refuse a name that would do something to a terminal."""
    if not name.isprintable():
        raise ValueError(f" must be printable, not {name!r:.60}")
    return name


def _startable(plugin: str) -> str:
    if is_program(plugin):
        words(plugin)
    return plugin


Name = Annotated[str, AfterValidator(_printable)]


class Section(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OpenSection(BaseModel):
    """A table whose other keys belong to the code that it names."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    @model_validator(mode="after")
    def _plain(self) -> Self:
        _check_plain(self.numbers)
        return self

    @property
    def numbers(self) -> dict[str, object]:
        """Everything beyond the section's own keys."""
        return dict(self.model_extra or {})


class RunSection(Section):
    """The size of the game."""

    name: Annotated[str, Field(pattern=_NAME)] = "game"
    agents: Annotated[int, Field(ge=1, le=LIMITS.agents)]
    rounds: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    dimension: Annotated[int, Field(ge=1, le=LIMITS.dimension)]
    seed: Annotated[int, Field(ge=0, lt=_SEEDS)] = 1
    reproducible: bool = True


class SetSection(OpenSection):
    """The feasible set X."""

    kind: Name


class AlgorithmSection(OpenSection):
    """The algorithm of every agent; the numbers go to the schedule and to the algorithm."""

    name: Name
    schedule: Name = ""
    mode: Literal["gossip", "local", "central"] | None = None
    horizon: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    sha256: Annotated[str, Field(pattern=_SHA256)] = ""


class FeedbackSection(Section):
    """The values that the adversary grants per agent and round."""

    points: Annotated[int, Field(ge=0, le=LIMITS.points)] = 0
    loss_gradient: bool = False
    constraint_gradient: bool = False


class QuestionSection(FeedbackSection):
    """What the algorithm declares to ask per agent and round: exactly this, in every round; in a resolved spec."""

    memo: Annotated[int, Field(ge=0, le=LIMITS.memo)] = 0
    """Numbers that travel with an agent's question, for its update."""


class GossipSection(OpenSection):
    """The code in which agents send each other their rows; the numbers go to it."""

    code: Name = "exact"
    difference: bool | None = None
    """Whether the code is of the difference to the public copy; always set in a resolved spec."""
    trigger: Annotated[float, Field(ge=0)] = 0.0
    trigger_power: Annotated[float, Field(ge=0)] = 1.0
    """A row is sent if it is farther than trigger / t^trigger_power from its public copy."""
    step: Annotated[float, Field(gt=0)] | None = None
    """How far an agent moves to its neighbours' copies, 1 as far as W_t says; always set in a resolved spec."""
    sha256: Annotated[str, Field(pattern=_SHA256)] = ""

    @property
    def plain(self) -> bool:
        """Whether rows travel as they are, every round: then there are no public copies."""
        return self.code == "exact" and not self.trigger

    @property
    def remembers(self) -> bool:
        """Whether a row's public copy depends on the one of the round before, so that a receiver must have them all."""
        return bool(self.difference) or self.trigger > 0


class GraphSection(OpenSection):
    """The communication graph."""

    name: Name
    sha256: Annotated[str, Field(pattern=_SHA256)] = ""


class SegmentSection(Section):
    """The rounds from one on, up to the next segment's, and the hash of the code that they are committed to."""

    round: Annotated[int, Field(ge=1, lt=1 << 63)]
    sha256: Annotated[str, Field(pattern=_SHA256)] = ""


class AdversarySection(Section):
    """The adversary that chooses the functions."""

    plugin: Annotated[Name, AfterValidator(_startable)]
    isolation: Literal["process", "none"] | None = None
    """Whether the plugin runs in a worker process of its own; always set in a resolved spec."""
    seconds: Annotated[float, Field(gt=0, le=86400)] | None = None
    """How long a call of a plugin in another process may take; None: LIMITS.plugin_seconds."""
    memory: Annotated[int, Field(ge=1, le=1 << 30)] | None = None
    """Mebibytes that a plugin's worker may take; None: LIMITS.plugin_memory_bytes."""
    options: dict[str, Any] = {}
    seed: Annotated[int | Literal["random"] | None, BeforeValidator(_check_seed)] = None
    """Draws the functions; None: run.seed does. Never RANDOM in a game that is played."""
    sha256: Annotated[str, Field(pattern=_SHA256)] = ""
    segments: list[SegmentSection] | None = None
    """Of a run folder: which code has bound the plugin from which round on, where it was changed within the game."""

    @model_validator(mode="after")
    def _plain(self) -> Self:
        _check_plain(self.options, ".options")
        return self


class RecordSection(Section):
    """The records besides the metrics."""

    decisions: bool = False
    score_every: Annotated[int, Field(ge=1, lt=1 << 63)] = 1


class DepartureSection(Section):
    """Agents that do not play from a round on."""

    round: Annotated[int, Field(ge=2, lt=1 << 63)]
    agents: Annotated[list[Annotated[int, Field(ge=0, lt=LIMITS.agents)]], Field(min_length=1), AfterValidator(sorted)]


class PublicSpec(Section):
    """What every process of a game may know of it."""

    run: RunSection
    set: SetSection
    algorithm: AlgorithmSection
    feedback: FeedbackSection | None = None
    question: QuestionSection | None = None
    graph: GraphSection
    gossip: GossipSection = Field(default_factory=GossipSection)
    departures: list[DepartureSection] = []

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        """Refuse a game whose decisions no process could hold."""
        agents, dimension = self.run.agents, self.run.dimension
        if agents * dimension > LIMITS.coordinates:
            raise ValueError(
                f"run.agents = {agents} times run.dimension = {dimension} is more than {LIMITS.coordinates}, and the "
                "decisions of a round would not fit into memory; lower one of the two"
            )
        return self

    @model_validator(mode="after")
    def _check_departures(self) -> Self:
        """Refuse departures that are out of order, of agents that are not there, or of all of them."""
        rounds = [each.round for each in self.departures]
        gone = [agent for each in self.departures for agent in each.agents]
        if any(later <= earlier for earlier, later in itertools.pairwise(rounds)):
            raise ValueError("departures must stand in ascending rounds, one for each round")
        if max(gone, default=0) >= self.run.agents:
            raise ValueError(f"departures name agent {max(gone)}, and the last agent is {self.run.agents - 1}")
        if len(set(gone)) < len(gone):
            raise ValueError("departures name an agent twice; it leaves once")
        if len(gone) == self.run.agents:
            raise ValueError("departures leave nobody in the game; at least one agent stays")
        return self

    @classmethod
    def parse(cls, text: str, *, source: str) -> Self:
        """Read a spec from TOML; BadSpec is one sentence that begins with `source`."""
        return cls.load(read(text, source=source), source=source)

    @classmethod
    def load(cls, data: Mapping[str, object], *, source: str) -> Self:
        """Read a spec from tables, as `override` returns them."""
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            errors = error.errors(include_url=False)
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise BadSpec(f"{source}: {_sentence(errors[0])}{more}") from error

    def tables(self) -> dict[str, object]:
        """Return the spec as nested tables, without absent keys; departures come last."""
        tables: dict[str, Any] = self.model_dump(exclude_none=True)
        if departures := tables.pop("departures"):
            tables["departures"] = departures
        for section, key in itertools.product(("algorithm", "graph", "gossip", "adversary"), ("sha256", "schedule")):
            if tables.get(section, {}).get(key) == "":
                del tables[section][key]
        return tables

    def to_toml(self) -> str:
        """Return text that parses to an equal spec."""
        return tomli_w.dumps(self.tables())

    def replace(self, **changes: object) -> Self:
        """Return a spec with the dotted keys changed, `replace(**{"run.rounds": 50})`; None removes a key."""
        tables = self.tables()
        for key, value in changes.items():
            assign(tables, key, value)
        return self.load(tables, source="spec")

    @property
    def leaving(self) -> tuple[Departure, ...]:
        """The departures, in the form in which they are sent to every process."""
        return tuple(Departure(each.round, np.array(each.agents, dtype=np.intp)) for each in self.departures)

    def departing(self, departures: Iterable[Departure]) -> Self:
        """Return the spec with these departures."""
        tables = [{"round": each.round, "agents": each.agents.tolist()} for each in departures]
        return self.replace(departures=tables or None)

    def feasible_set(self) -> FeasibleSet:
        """Return X."""
        return make_set(self.set.kind, self.run.dimension, self.set.numbers)


class Spec(PublicSpec):
    """One game, completely: hosts never get this."""

    adversary: AdversarySection
    record: RecordSection = RecordSection()

    @property
    def public(self) -> PublicSpec:
        """What hosts get of it."""
        public = {name: table for name, table in self.tables().items() if name in PublicSpec.model_fields}
        return PublicSpec.load(public, source="spec")

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the spec in a canonical form; equal specs, and only they, have equal digests.

        Departures and the plugin's limits are left out: they may change while the game is played.
        """
        fixed = self.replace(**dict.fromkeys(CHANGEABLE))
        tables = {name: table for name, table in fixed.tables().items() if name != "departures"}
        canonical = json.dumps(tables, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def function_seed(self) -> int:
        """The seed that draws the functions; BadSpec where it is still to be drawn."""
        seed = self.adversary.seed
        if isinstance(seed, str):
            raise BadSpec(f'adversary.seed = "{seed}" is not drawn yet; resolve the spec first (slaternet_lab.load)')
        return self.run.seed if seed is None else seed

    @property
    def sealed(self) -> bool:
        """Whether the functions are drawn by another seed than the one that hosts know."""
        return self.adversary.seed not in (None, self.run.seed)

    def with_drawn(self, seed: int) -> "Spec":
        """Return the spec with this seed of the functions, where one is to be drawn; another spec stays as it is."""
        return self.replace(**{"adversary.seed": seed}) if self.adversary.seed == RANDOM else self

    def shifted(self, by: int) -> "Spec":
        """Return the spec with both seeds larger by a number."""
        shifted = self.replace(**{"run.seed": self.run.seed + by})
        own = self.adversary.seed
        return shifted.replace(**{"adversary.seed": own + by}) if isinstance(own, int) else shifted


def _check_plain(value: object, key: str = "") -> None:
    """Refuse values without a canonical form, dates and numbers that are not finite; the error names the key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_plain(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner, key)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{key} must be finite, not {value}")
    elif isinstance(value, str) and "\0" in value:
        raise ValueError(f"{key} must not contain the character 0; remove it")
    elif not isinstance(value, bool | int | float | str):
        raise ValueError(f"{key} must be a number, text, list or table, not {value}")


def _sentence(error: ErrorDetails) -> str:
    """Return one of pydantic's findings as a sentence that names key and remedy."""
    path = [str(part) for part in error["loc"]]
    key = ".".join(path)
    match error["type"]:
        case "missing" if len(path) == 1:
            return f"[{key}] is missing; add the section"
        case "missing":
            return f"{key} is missing; add it to [{path[0]}]"
        case "extra_forbidden" if len(path) == 1:
            return f"[{key}] is not a section of a spec; {suggestion(key, Spec.model_fields)}"
        case "extra_forbidden":
            return f"{key} is not a key of [{path[0]}]; {suggestion(path[-1], _CLOSED[path[0]].model_fields)}"
        case "value_error":
            return f"{key}{error['ctx']['error']}"
        case _:
            wanted = _PATTERNS[path[-1]] if error["type"] == "string_pattern_mismatch" else expected(error)
            return f"{key} must be {wanted}, not {repr(error['input'])[:60]}"


_CLOSED: dict[str, type[Section]] = {
    "run": RunSection,
    "feedback": FeedbackSection,
    "question": QuestionSection,
    "adversary": AdversarySection,
    "record": RecordSection,
    "departures": DepartureSection,
}
"""The sections that refuse unknown keys."""
