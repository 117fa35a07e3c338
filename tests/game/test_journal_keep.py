"""`--journal-keep`: the journal of a long game stays short, and what dies goes on from it to the same bits."""

import os
import signal
from pathlib import Path

import pytest
from tests.game.processes import digest, eventually, playing, recorded, simulated, slaternet, write_spec

from slaternet.errors import SlaternetError
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.journal import read
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_lab import Run

pytestmark = pytest.mark.slow

ROUNDS, KEEP = 1000, 192


def first_round(folder: Path) -> int:
    """Return the round after which the journal of a run begins; 0 where it is whole."""
    try:
        first = next(read(folder), None)
    except SlaternetError:  # it has just been begun
        return 0
    return first.round if isinstance(first, Snapshot) else 0


def test_killed_after_the_journal_was_cut_the_game_ends_in_the_bits_of_its_simulation(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS)
    with playing(spec, tmp_path / "run", "--journal-keep", KEEP) as game:
        eventually(lambda: game.process.poll() is not None or first_round(game.folder) > 0)
        children = game.children()
        for name in ("adversary", "agent-1"):
            os.kill(children[name], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert "going on from the journal" in (game.folder / "state" / "adversary" / "log").read_text()
    run = Run.open(tmp_path / "run")
    assert recorded(run.folder) == ROUNDS
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))
    rounds = {entry.asked.question.round for entry in read(run.folder) if isinstance(entry, Purchase)}
    assert rounds == set(range(first_round(run.folder) + 1, ROUNDS + 1))
    assert KEEP <= len(rounds) < 3 * KEEP

    longer = slaternet("resume", run.folder, "--rounds", ROUNDS + 100)
    assert longer.code == 0, longer.err
    run = Run.open(run.folder)
    assert digest(run) == digest(simulated(run.spec, tmp_path / "longer"))

    audited = slaternet("audit", run.folder)
    assert audited.code == 0, audited.out
    assert f"from round {first_round(run.folder) + 1} on" in " ".join(audited.out.split())
