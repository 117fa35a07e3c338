"""A plugin's worker is killed, whichever of its processes and whenever: the plugin is played again, and compared."""

import os
import re
import signal
from pathlib import Path

import pytest
from tests.game.plugins.walks import HELD
from tests.game.processes import PLUGINS, Playing, below, digest, eventually, playing, recorded, simulated, write_spec

from slaternet_adversary.plugin.sandbox import namespaces
from slaternet_lab import Run

ROUNDS = 300
WALKS = PLUGINS / "walks.py"


class Worker:
    """The processes of a plugin's worker, which change whenever it is started again."""

    def __init__(self, game: Playing) -> None:
        self._game = game
        self._killed: set[int] = set()

    def kill(self, depth: int) -> None:
        """Kill one of its processes, 0 being the outermost, as soon as a worker that was not killed before has it."""
        eventually(lambda: self._game.process.poll() is not None or self._struck(depth))
        assert self._game.process.poll() is None, self._game.outcome()

    def _struck(self, depth: int) -> bool:
        """Kill a process of a fresh worker; return whether there was one: processes come and go while it starts."""
        chain = self._fresh()
        if len(chain) <= depth:
            return False
        try:
            os.kill(chain[depth], signal.SIGKILL)
        except ProcessLookupError:
            return False
        self._killed.update(chain)
        return True

    def _fresh(self) -> list[int]:
        chain = [self._game.children().get("adversary", 0)]
        while children := below(chain[-1]):
            chain.append(children[0])
        return [] if self._killed.intersection(chain) else chain[1:]


@pytest.fixture(params=["with namespaces", "without namespaces"])
def depths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return of how many processes a worker consists."""
    if request.param == "without namespaces":
        monkeypatch.setenv("PATH", "")  # `unshare` is not found
        return 2
    if hindrance := namespaces():
        pytest.skip(hindrance)
    return 3


@pytest.mark.slow
def test_whichever_process_of_a_worker_is_killed_and_whenever_the_game_ends_in_the_bits_of_its_simulation(
    depths: int, tmp_path: Path
) -> None:
    more = f'[adversary.options]\nheld = "{tmp_path}"\n'
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{WALKS}:Walk", more=more)
    with playing(spec, tmp_path / "run") as game:
        worker = Worker(game)
        for depth in range(depths):
            worker.kill(depth)  # while it starts
        # in a call that would not end; without namespaces a worker can do so without its parent
        for round, depth in zip(HELD, (2, 1, 0) if depths == 3 else (1, 1, 1), strict=True):
            eventually((tmp_path / str(round)).exists)
            worker.kill(depth)
        for depth in reversed(range(depths)):
            game.under_way(recorded(game.folder) + 10)
            worker.kill(depth)  # at any time
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert recorded(game.folder) == ROUNDS
    run = Run.open(game.folder)
    assert digest(run) == digest(simulated(run.spec.replace(**{"adversary.isolation": "none"}), tmp_path / "simulated"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "adversary"])
def test_a_plugin_that_is_another_when_it_is_played_again_is_named_with_round_and_agent(
    victim: str, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{WALKS}:Drifts")
    with playing(spec, tmp_path / "run") as game:
        adversary = game.under_way(40)["adversary"]
        if victim == "worker":
            Worker(game).kill(0)
        else:
            os.kill(adversary, signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 5
    assert [
        line for line in outcome.err.splitlines() if "has not been examined" not in line
    ] == outcome.err.splitlines()[-1:]
    said = re.search(
        r"the adversary plugin Drifts is not reproducible: played again, it has another value for agent (\d+) in round "
        r"(\d+) than the one it gave; correct its code",
        outcome.err,
    )
    assert said is not None, outcome.err
    assert int(said[1]) == 4
    assert 1 <= int(said[2]) <= ROUNDS
    assert recorded(game.folder) < ROUNDS  # nothing more is revealed
    for agent in ("agent-1", "agent-2"):
        assert "reproducible" not in (game.folder / "state" / agent / "log").read_text()
