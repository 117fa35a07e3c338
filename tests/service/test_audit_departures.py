"""An audit of a game that agents leave: clean where they left as it says, and a forged departure is named."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.journals import forged
from tests.support.services import playing, small_spec

from slaternet.attendance import Attendance
from slaternet.model import Departure
from slaternet.spec import Spec
from slaternet_adversary.engine.events import Commit, RefereeSnapshot
from slaternet_adversary.journal.compaction import Compaction
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry
from slaternet_adversary.journal.journal import AdversaryJournal, read
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.scoring import Scored
from slaternet_lab import Run
from slaternet_lab.audit.report import AuditCheck, AuditReport

T, E = 24, 9
LEAVING = Departure(E, np.array([2, 3]))
TOTALS = ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation")


async def _play(spec: Spec, folder: Path) -> Run:
    async with playing(spec, folder, hosts=3) as game:
        return await game.over()


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Play a game of 6 agents over real gRPC, of which a host's two leave."""
    spec = small_spec(rounds=T).departing([LEAVING])
    return asyncio.run(_play(spec, tmp_path_factory.mktemp("runs") / "game"))


def of(report: AuditReport, name: str) -> AuditCheck:
    [check] = [each for each in report.checks if each.name == name]
    return check


def ordered(entries: list[Entry]) -> None:
    """Put what was journalled into the order of its rounds; nobody runs ahead of anyone then."""
    kinds = (SeatingEntry, Commit, Purchase, Scored)

    def place(entry: Entry) -> tuple[int, int]:
        kind = next((number for number, each in enumerate(kinds) if isinstance(entry, each)), len(kinds))
        round = entry.asked.question.round if isinstance(entry, Purchase) else getattr(entry, "round", T + 1)
        return (0 if kind < 2 else round, kind)

    entries.sort(key=place)


def seats_of(entries: list[Entry]) -> SeatingEntry:
    [seats] = [each for each in entries if isinstance(each, SeatingEntry)]
    return seats


def lose(entries: list[Entry], *, ahead: bool, late: bool = False) -> None:
    """Have the two leave in a second seating, as where their host was lost, which may have run ahead of the others.

    `late`: it has bought what is void after the seating that makes it so.
    """
    ordered(entries)
    seats = seats_of(entries)
    mine = [each for each in entries if isinstance(each, Purchase) and 2 in each.asked.question.agents][E - 2 :]
    [last] = mine  # of round E - 1
    at = next(i for i, each in enumerate(entries) if isinstance(each, Purchase) and each.asked.question.round == E)
    void = Purchase(replace(last.asked, question=replace(last.asked.question, round=E)), last.values)
    added: list[Entry] = [replace(seats, epoch=2)]
    if ahead:
        added.insert(1 if late else 0, void)
    entries[at:at] = added
    entries[0] = replace(seats, departures=())


def test_a_game_that_agents_leave_audits_clean(left: Run) -> None:
    report = left.audit()

    assert report.verdict == "ok", report.sentences()
    decisions = 6 * (E - 1) + 4 * (T + 1 - E)
    assert of(report, "budgets").count == of(report, "decisions").count == decisions
    assert of(report, "scores").count == of(report, "metrics").count == report.rounds == T
    assert "connect everyone" in of(report, "graphs").note
    assert f"from round {E} on" in of(report, "graphs").note
    assert report.digest == left.summary["digest"]


def test_what_a_lost_host_bought_ahead_of_the_others_is_void(left: Run, tmp_path: Path) -> None:
    honest = forged(left, tmp_path / "honest", lambda entries: lose(entries, ahead=False)).audit()
    ahead = forged(left, tmp_path / "ahead", lambda entries: lose(entries, ahead=True)).audit()

    assert honest.verdict == ahead.verdict == "ok", (honest.sentences(), ahead.sentences())
    assert of(ahead, "budgets").count == of(honest, "budgets").count + 2
    assert of(ahead, "decisions").count == of(honest, "decisions").count


def test_what_an_agent_buys_after_it_has_left_is_named(left: Run, tmp_path: Path) -> None:
    report = forged(left, tmp_path / "late", lambda entries: lose(entries, ahead=True, late=True)).audit()

    [first] = of(report, "budgets").differences
    assert first.what.endswith(f"a question speaks for an agent that has left the game in round {E}")
    assert (first.round, first.agent) == (E, 2)


def test_what_is_void_may_lie_behind_the_last_round(left: Run, tmp_path: Path) -> None:
    """A host ran ahead and was lost, and the game was stopped before the others came so far."""

    def change(entries: list[Entry]) -> None:
        lose(entries, ahead=True)
        entries[:] = [each for each in entries if not isinstance(each, Purchase) or each.asked.question.round <= E]
        entries[:] = [each for each in entries if not isinstance(each, Scored) or each.round < E]
        ours = [each for each in entries if isinstance(each, Purchase) and each.asked.question.round == E]
        for each in ours[1:]:  # the first is the one that is void
            entries.remove(each)

    run = forged(left, tmp_path / "stopped", change)
    (run.folder / "summary.json").unlink()
    rewrite_spec(run.folder, run.spec.replace(**{"run.rounds": E - 1}))

    report = Run.open(run.folder).audit()

    assert of(report, "budgets").verdict == "ok", report.sentences()
    rewrite_spec(run.folder, run.spec.replace(**{"run.rounds": E - 2}))
    assert "the game has 7 rounds" in str(of(Run.open(run.folder).audit(), "budgets").differences[0])


def rewrite_spec(folder: Path, spec: Spec) -> None:
    (folder / "spec.toml").write_text(spec.to_toml())


def test_the_spec_of_an_unfinished_game_may_lag_behind_its_journal(left: Run, tmp_path: Path) -> None:
    run = forged(left, tmp_path / "unfinished", lambda entries: lose(entries, ahead=True))
    rewrite_spec(run.folder, run.spec.departing(()))
    finished = Run.open(run.folder).audit()
    (run.folder / "summary.json").unlink()

    report = Run.open(run.folder).audit()

    assert not any(each.differences for each in report.checks), report.sentences()
    assert report.rounds == T
    assert "by spec.toml nobody leaves, and by the journal" in of(finished, "budgets").differences[0].what


def in_seats(*departures: Departure) -> Callable[[list[Entry]], None]:
    def change(entries: list[Entry]) -> None:
        entries[entries.index(seats_of(entries))] = replace(seats_of(entries), departures=departures)

    return change


def second(epoch: int, *departures: Departure, at: int = E - 1) -> Callable[[list[Entry]], None]:
    """Add a seating before the first purchase of a round."""

    def change(entries: list[Entry]) -> None:
        ordered(entries)
        place = next(
            i for i, each in enumerate(entries) if isinstance(each, Purchase) and each.asked.question.round == at
        )
        entries.insert(place, replace(seats_of(entries), epoch=epoch, departures=departures))

    return change


LATER, SOONER = Departure(E + 1, LEAVING.agents), Departure(E - 1, LEAVING.agents)
OTHERS = Departure(E, np.array([2, 4]))
JOURNALLED: dict[str, tuple[Callable[[list[Entry]], None], str]] = {
    "later": (
        in_seats(LATER),
        "by spec.toml agents [2, 3] leave in round 9, and by the journal agents [2, 3] leave in ",
    ),
    "sooner": (in_seats(SOONER), "an agent that has left the game in round 8"),
    "others": (in_seats(OTHERS), "an agent that has left the game in round 9"),
    "nobody": (in_seats(), "and by the journal nobody leaves"),
    "everyone": (in_seats(Departure(E, np.arange(6))), "its departures leave nobody in the game"),
    "one twice": (in_seats(LEAVING, Departure(E + 1, np.array([3]))), "its departures name an agent twice"),
    "one that there is not": (
        in_seats(Departure(E, np.array([6]))),
        "its departures name agent 6, and the last agent is 5",
    ),
    "in a round that there is not": (
        in_seats(Departure(2**63, LEAVING.agents)),
        "its departures.0.round must be below",
    ),
    "an epoch twice": (second(1, LEAVING), "it is seating 1, and seating 1 came before it"),
    "taken back": (second(2), "it has this agent leave otherwise than an earlier seating did"),
    "in the past": (
        second(2, Departure(3, np.array([5])), LEAVING),
        "it has this agent leave in round 3, and everyone has played round 7",
    ),
}


@pytest.mark.parametrize("name", JOURNALLED)
def test_a_departure_forged_in_the_journal_is_named(name: str, left: Run, tmp_path: Path) -> None:
    change, words = JOURNALLED[name]

    report = forged(left, tmp_path / "forged", change).audit()

    assert any(words in each.what for each in of(report, "budgets").differences), report.sentences()


@pytest.mark.parametrize("departure", [LATER, SOONER, OTHERS, None], ids=["later", "sooner", "others", "nobody"])
def test_a_departure_forged_in_the_spec_is_named(departure: Departure | None, left: Run, tmp_path: Path) -> None:
    shutil.copytree(left.folder, tmp_path / "forged")
    rewrite_spec(tmp_path / "forged", left.spec.departing([departure] if departure else ()))

    report = Run.open(tmp_path / "forged").audit()

    assert "by spec.toml " in of(report, "budgets").differences[0].what
    assert of(report, "decisions").verdict == "ok"  # they are held against the journal


@pytest.mark.parametrize(
    ("departure", "words"),
    [
        (LATER, f"the game has {T} rounds, and the journal {E - 1} whole ones"),
        (SOONER, f"an agent that has left the game in round {E - 1}"),
        (OTHERS, f"an agent that has left the game in round {E}"),
    ],
    ids=["later", "sooner", "others"],
)
def test_a_departure_forged_everywhere_does_not_fit_what_was_bought(
    departure: Departure, words: str, left: Run, tmp_path: Path
) -> None:
    run = forged(left, tmp_path / "forged", in_seats(departure))
    rewrite_spec(run.folder, run.spec.departing([departure]))
    told = [{"round": departure.round, "agents": departure.agents.tolist()}]
    (run.folder / "summary.json").write_text(json.dumps({**left.summary, "departures": told}))

    report = Run.open(run.folder).audit()

    assert words in of(report, "budgets").differences[0].what


def test_departures_of_the_summary_are_held_against_the_journal(left: Run, tmp_path: Path) -> None:
    shutil.copytree(left.folder, tmp_path / "forged")
    (tmp_path / "forged" / "summary.json").write_text(json.dumps({**left.summary, "departures": []}))

    report = Run.open(tmp_path / "forged").audit()

    assert [each.name for each in report.checks if each.differences] == ["summary"]
    assert "departures is []" in of(report, "summary").differences[0].what


def test_a_row_says_how_many_have_played(left: Run, tmp_path: Path) -> None:
    players = [len(Attendance(6, [LEAVING]).players(t)) for t in range(1, T + 1)]
    assert left.metrics["agents"].tolist() == players
    shutil.copytree(left.folder, tmp_path / "forged")
    path = tmp_path / "forged" / "metrics.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    rows[E][rows[0].index("agents")] = "6"
    path.write_text("".join(",".join(row) + "\n" for row in rows))

    [first] = of(Run.open(tmp_path / "forged").audit(), "metrics").differences

    assert (first.round, first.what) == (E, "agents is 6 in metrics.csv, and by the journal 4")


def test_a_journal_that_was_cut_after_agents_had_left_audits_clean(left: Run, tmp_path: Path) -> None:
    shutil.copytree(left.folder, tmp_path / "cut")
    totals = [float(left.metrics[name][E]) for name in TOTALS]
    chained = bytes(32)
    for round in range(1, E + 2):
        bought = [
            each for each in read(left.folder) if isinstance(each, Purchase) and each.asked.question.round == round
        ]
        bought.sort(key=lambda each: int(each.asked.question.agents[0]))
        chained = hashlib.sha256(chained + b"".join(each.asked.question.x.tobytes() for each in bought)).digest()
    loss, violation, zero_loss, zero_violation = totals
    standing = RefereeSnapshot(E + 1, T, chained, (loss, violation, zero_loss, zero_violation))
    journal = AdversaryJournal.open(tmp_path / "cut", str(left.summary["run"]), again=True)
    assert list(journal.replay())
    assert Compaction(journal.file, Snapshot(standing)).step(lambda: None)
    journal.close()

    report = Run.open(tmp_path / "cut").audit()

    assert not any(each.differences for each in report.checks), report.sentences()
    assert of(report, "budgets").count == 4 * (T - E - 1)
