"""The contestants of a comparison: what a user names, and the resolved specs that it means.

An item is NAME, or NAME+key=value+key=value: settings of [algorithm] for this contestant alone, such as
`yi2023+dual_linearised=false`; a key with a dot is one of another section. A grid lists values of a key,
`algorithm.gamma0=0.05,0.15`, and each combination of them makes a contestant of every item that takes the key. A value
may have settings of its own, too, of the same section: `gossip.code=exact,grid+width=0.1`.

A spec that is moved from its own algorithm to another keeps its schedule where it means the same to the other, and then
the numbers that the other takes. Each is granted the feedback that it declares, unless the user grants something else.
"""

import contextlib
import itertools
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slaternet.errors import BadSpec, SlaternetError
from slaternet.model import Description
from slaternet.spec import AlgorithmSection, FeedbackSection, GossipSection, Spec
from slaternet.spec.overrides import override
from slaternet.spec.paths import located
from slaternet.spec.plugins import absolute
from slaternet.suggestions import suggestion
from slaternet_agent.code_registry import code_numbers
from slaternet_agent.registry import completed, numbers_taken, same_rule
from slaternet_agent.shell.build import build_algorithm
from slaternet_lab.specs.resolve import read, resolve

PAPER = ("zhang2024", "yi2023", "yi2024", "zero")
"""The paper's comparison: Algorithm 1, what it is compared with, and the baseline that never moves."""

_PLUS = re.compile(r"\+(?=[A-Za-z_][\w.-]*=)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+=-]+")
_FOLDER_LETTERS = 100
_SEQUENCES = {"alpha", "beta", "gamma", "xi", "delta"}
_ELSEWHERE = {
    "run.seed": "say how many with --seeds",
    "adversary.seed": "say how many with --seeds",
    "algorithm.name": "name the algorithms with --algorithms",
}
"""What no item and no grid may set, and the option that does."""


@dataclass(frozen=True)
class Contestant:
    """An algorithm with its settings, in one game per seed."""

    label: str
    folder: str
    """Name of its folder in that of the comparison."""
    feedback: FeedbackSection
    """The feedback per agent and round that it declares."""
    specs: tuple[Spec, ...]
    """Resolved, one per seed."""


@dataclass(frozen=True)
class Entries:
    """All contestants, and what was left out of the spec for some of them: key by key, their labels."""

    contestants: tuple[Contestant, ...]
    left_out: dict[str, list[str]]


@dataclass(frozen=True)
class _Item:
    """What a user wrote between two commas of --algorithms."""

    text: str
    name: str
    settings: tuple[str, ...]

    @property
    def keys(self) -> set[str]:
        return {_key(setting) for setting in self.settings}

    @property
    def short(self) -> str:
        """The text without the folders of a file."""
        where, _, _ = self.name.rpartition(":")
        return self.text.removeprefix(where[: where.rfind("/") + 1])


def read_entries(
    what: str | None,
    algorithms: Sequence[str] | None,
    *,
    seeds: int,
    grid: Sequence[str] = (),
    settings: Sequence[str] = (),
    drawn: int | None = None,
) -> Entries:
    """Return the contestants, resolved and checked; BadSpec is one sentence.

    A seed that is to be drawn is drawn once for all of them, or was `drawn` before.
    """
    if seeds < 1:
        raise BadSpec(f"seeds must be at least 1, not {seeds}")
    numbers = [setting for setting in settings if _is_number(setting)]
    coding = [setting for setting in settings if _is_coding(setting) and _key(setting) != "gossip.code"]
    grants = [setting for setting in settings if _key(setting).startswith("feedback.")]
    own, base = read(what, [setting for setting in settings if setting not in (*numbers, *coding, *grants)])
    own = located(own, base).with_drawn(secrets.randbits(63) if drawn is None else drawn)
    points = [list(itertools.chain(*values)) for values in itertools.product(*map(_values, grid))]
    entries = _Entries(own, numbers, coding)
    usual = PAPER if own.algorithm.name in PAPER else (own.algorithm.name, *PAPER)
    items = [_parsed(text) for text in dict.fromkeys(algorithms or usual)]
    shorts = [item.short for item in items]
    for item in items:
        label = item.short if shorts.count(item.short) == 1 else item.text
        for point in points:
            with _naming(item.text):
                entries.add(item, label, point)
    entries.check([*numbers, *coding, *itertools.chain.from_iterable(points)])
    folders = _folders(entries.specs)
    contestants = [enter(label, folders[label], spec, base, seeds, grants) for label, spec in entries.specs.items()]
    return Entries(tuple(contestants), entries.left_out)


def split(text: str) -> list[str]:
    """Split a text at its commas, those within brackets excepted."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces]


class _Entries:
    """The specs of all items at all points of the grid, before seeds.

    `numbers` go to every item that takes them; `coding`, settings of [gossip], to every item that gossips, and of these
    the numbers to the codes that take them.
    """

    def __init__(self, own: Spec, numbers: Sequence[str], coding: Sequence[str]) -> None:
        self._own = own
        self._numbers = numbers
        self._coding = coding
        self._applied: set[str] = set()
        self._known: set[str] = set()
        self.specs: dict[str, Spec] = {}
        self.left_out: dict[str, list[str]] = {}

    def add(self, item: _Item, label: str, point: Sequence[str]) -> None:
        """Enter an item at a point of the grid."""
        point = [setting for setting in point if _key(setting) not in item.keys]
        section = _section(self._own, item.name, [*self._numbers, *point, *item.settings])
        taken = numbers_taken(section)
        point = [setting for setting in point if not _is_number(setting) or _number(setting) in taken]
        shared = [setting for setting in self._numbers if _number(setting) in taken]
        moved = self._moved(section, taken, label)
        gossips = _gossips(moved, [*shared, *point, *item.settings])
        codes = _numbers_of_code(self._own, [*point, *item.settings]) if gossips else set()
        coding = [*self._coding, *point]
        left = {each for each in coding if _is_coding(each) and not (gossips and _fits(each, codes))}
        point = [setting for setting in point if setting not in left]
        contestant, label = label, label + _suffix(point)
        if label in self.specs:
            return  # the grid is of a key that it does not take
        settings = [*shared, *(each for each in self._coding if each not in left), *point, *item.settings]
        keys = {_key(setting) for setting in settings}
        self._applied |= keys
        self._known |= taken | codes
        if not gossips and not moved.gossip.plain:
            moved = moved.replace(gossip=None)
            self._leave_out("gossip", contestant)
        spec = Spec.load(override(moved.tables(), settings), source="spec")
        self.specs[label] = located(spec, Path.cwd(), keys)

    def check(self, settings: Sequence[str]) -> None:
        """Refuse numbers that no contestant takes."""
        for setting in settings:
            if (_is_number(setting) or _is_code_number(setting)) and _key(setting) not in self._applied:
                remedy = suggestion(_number(setting), self._known)
                raise BadSpec(f"{_key(setting)} is a number of none of {', '.join(self.specs)}; {remedy}")

    def _moved(self, section: AlgorithmSection, taken: set[str], contestant: str) -> Spec:
        """Return the spec with another [algorithm], which keeps the numbers that it takes."""
        own = self._own.algorithm
        same = (section.name, section.schedule) == (own.name, own.schedule)
        shared = taken if section.name == own.name or same_rule(own, section) else set()
        kept = {key: value for key, value in own.numbers.items() if same or key in shared}
        gone = ["schedule"] if own.schedule and not section.schedule else []
        for key in (*gone, *(key for key in own.numbers if key not in kept)):
            self._leave_out(key, contestant)
        return self._own.replace(algorithm={**section.model_dump(exclude_none=True), **kept}, feedback=None)

    def _leave_out(self, key: str, contestant: str) -> None:
        labels = self.left_out.setdefault(key, [])
        labels.extend({contestant}.difference(labels))


def _gossips(spec: Spec, settings: Sequence[str]) -> bool:
    """Whether the agents of a contestant send each other rows, so that a code makes a difference."""
    own = [setting for setting in settings if _key(setting).startswith("algorithm.")]
    spec = Spec.load(override(spec.tables(), own), source="spec")
    if completed(spec.algorithm).mode != "gossip":
        return False
    try:
        return build_algorithm(spec, Description(constraints=1)).width > 0
    except SlaternetError:
        return True  # what is wrong with it is said when it is resolved


def _numbers_of_code(own: Spec, settings: Sequence[str]) -> set[str]:
    """Return the names of the numbers that a contestant's code takes."""
    given = [setting for setting in settings if _key(setting) == "gossip.code"]
    tables = override({"gossip": {"code": own.gossip.code}}, given)
    section = GossipSection.model_validate(tables["gossip"])
    return code_numbers(section.model_copy(update={"code": absolute(section.code, Path.cwd())}))


def _fits(setting: str, numbers: Collection[str]) -> bool:
    """Whether a code takes a setting of [gossip]."""
    return not _is_code_number(setting) or _number(setting) in numbers


def _suffix(point: Sequence[str]) -> str:
    """Return what tells a contestant at a point of the grid from the item's others."""
    pieces, before = [], "algorithm"
    for setting in point:
        section, _, rest = setting.partition(".")
        pieces.append(f"+{rest if section == before else setting}")
        before = section
    return "".join(pieces)


def _section(own: Spec, name: str, settings: Sequence[str]) -> AlgorithmSection:
    """Return the [algorithm] of a contestant without its numbers."""
    before, name = own.algorithm, absolute(name, Path.cwd())
    kept = {"schedule"} if name != before.name else {"schedule", "mode", "sha256"}
    tables = {"algorithm": {**before.model_dump(include=kept, exclude_none=True), "name": name}}
    given = [each for each in settings if _key(each) in ("algorithm.schedule", "algorithm.mode")]
    section = own.replace(**override(tables, given)).algorithm
    if name == before.name or "algorithm.schedule" in map(_key, given):
        return section
    # `explicit` can be kept only where every sequence that is used is given
    numbers = {*before.numbers, *map(_number, settings)}
    complete = section.schedule != "explicit" or numbers_taken(section) & _SEQUENCES <= numbers
    return section if complete and same_rule(before, section) else section.model_copy(update={"schedule": ""})


def enter(label: str, folder: str, spec: Spec, base: Path, seeds: int, grants: Sequence[str] = ()) -> Contestant:
    """Return the contestant that plays a spec with its seed and the next ones; `grants` are settings of [feedback]."""
    specs = []
    with _naming(label):
        rounds, every = spec.run.rounds, spec.record.score_every
        if rounds is None:
            raise BadSpec("run.rounds is missing, and a comparison needs it; say --set run.rounds=1000")
        if every > rounds:
            raise BadSpec(f"record.score_every = {every} scores none of the {rounds} rounds; lower it")
        for seed in range(seeds):
            resolved = resolve(spec.shifted(seed), base)
            granted = Spec.load(override(resolved.tables(), grants), source="spec")
            specs.append(resolve(granted, base) if grants else resolved)
    return Contestant(label, folder, resolved.feedback or FeedbackSection(), tuple(specs))


def _parsed(text: str) -> _Item:
    name, *settings = _PLUS.split(text)
    if not name:
        raise BadSpec("--algorithms has an item without a name; write for example --algorithms zhang2024,yi2023")
    full = [setting if "." in _key(setting) else f"algorithm.{setting}" for setting in settings]
    for setting in full:
        _check_key(_key(setting))
    return _Item(text, name, tuple(full))


def _values(text: str) -> list[list[str]]:
    """Return for each value of a grid's line its setting, and those of its own."""
    values = split(text.partition("=")[2])
    if "." not in _key(text) or not all(values):
        raise BadSpec(f"--grid {text} is not section.key=value,value; write for example algorithm.gamma0=0.05,0.15")
    section = _key(text).partition(".")[0]
    found = []
    for value in values:
        first, *more = _PLUS.split(value)
        found.append([f"{_key(text)}={first}", *(each if "." in _key(each) else f"{section}.{each}" for each in more)])
    for setting in itertools.chain(*found):
        _check_key(_key(setting))
    return found


def _check_key(key: str) -> None:
    if key in _ELSEWHERE:
        raise BadSpec(f"{key} is the same for all contestants of an item; {_ELSEWHERE[key]}")


def _folders(labels: Collection[str]) -> dict[str, str]:
    """Return a folder's name for each label."""
    folders: dict[str, str] = {}
    for label in labels:
        stem = _UNSAFE.sub("_", label).lstrip(".")[:_FOLDER_LETTERS]
        candidates = (stem if count == 1 else f"{stem}-{count}" for count in itertools.count(1))
        folders[label] = next(name for name in candidates if name not in folders.values())
    return folders


@contextlib.contextmanager
def _naming(label: str) -> Iterator[None]:
    """Begin the sentence of what is wrong with a contestant by its name."""
    try:
        yield
    except BadSpec as error:
        raise BadSpec(f"{label}: {error}") from error


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()


def _number(setting: str) -> str:
    return _key(setting).partition(".")[2].partition(".")[0]


def _is_number(setting: str) -> bool:
    """Whether a setting gives the algorithm or its schedule a number; one without a value removes a key."""
    ours = _key(setting).startswith("algorithm.") and _number(setting) not in AlgorithmSection.model_fields
    return ours and bool(setting.partition("=")[2].strip())


def _is_coding(setting: str) -> bool:
    return _key(setting).startswith("gossip.")


def _is_code_number(setting: str) -> bool:
    """Whether a setting gives the gossip code a number."""
    ours = _is_coding(setting) and _number(setting) not in GossipSection.model_fields
    return ours and bool(setting.partition("=")[2].strip())
