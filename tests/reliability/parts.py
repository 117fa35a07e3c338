"""The parts of the report, each an attempt to break a promise; its figures are filled in as it goes on."""

import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.reliability.report import Figures, Say, Skipped

from slaternet_coordinator.engine.rules import Policy

TESTS = Path(__file__).parents[1]

# what one game under the nemesis is asked to bear: its journal is replayed at every restart, so it shall not be long
_KILLS_A_GAME, _OTHERS_A_GAME = 20, 10
_SEEDS_A_MUTANT = 20
_SLOPE = 1.0  # MiB a minute
_SAID_EVERY = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything is tried."""

    seeds: int
    malformed: int
    hostile: int
    files: int
    kills: int
    others: int
    rounds: int
    soak: float
    connections: int
    at_once: int
    streams: int
    first: int
    """The first seed."""


def seeds(scale: Scale, figures: Figures, say: Say) -> None:
    """Play out worlds of the simulator, on all cores; every world must end in the bits of its reference."""
    faults: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    figures |= {"seeds": 0, "crashes": 0, "rounds": 0, "slowest_heal_virtual_seconds": 0.0}
    numbers = range(scale.first, scale.first + scale.seeds)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for outcome in pool.map(_world, numbers, chunksize=5):
            figures["seeds"] += 1
            if isinstance(outcome, str):
                wrong.append(outcome)
                continue
            kind, its_faults, crashes, rounds, heal = outcome
            kinds[kind] += 1
            faults += its_faults
            figures["crashes"] += crashes
            figures["rounds"] += rounds
            figures["slowest_heal_virtual_seconds"] = max(figures["slowest_heal_virtual_seconds"], round(heal, 2))
            if not figures["seeds"] % _SAID_EVERY:
                say(f"{figures['seeds']} of {scale.seeds} seeds, {len(wrong)} wrong")
    figures |= {"faults": dict(faults), "games": dict(kinds), "wrong": len(wrong)}
    assert not wrong, "; ".join(wrong[:5])


def _world(seed: int) -> tuple[str, Counter[str], int, int, float] | str:
    from tests.simulation.world import Wrong, run

    try:
        outcome = run(seed)
    except Wrong as error:
        return str(error)
    return outcome.kind, outcome.faults, outcome.crashes, outcome.rounds, outcome.heal_seconds


def mutants(scale: Scale, figures: Figures, say: Say) -> None:
    """Plant bugs into the product; the simulator must find each within a few harsh worlds."""
    from tests.simulation import code_mutants, host_mutants, loss_mutants  # noqa: F401 - plants them
    from tests.simulation.mutants import MUTANTS

    figures |= {"planted": len(MUTANTS), "seeds_until_caught": {}}
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for name, seeds in zip(MUTANTS, pool.map(_seeds_until_caught, MUTANTS), strict=True):
            figures["seeds_until_caught"][name] = seeds
            say(f"{name} is caught after {seeds} seeds" if seeds else f"{name} is not caught")
    escaped = [name for name, seeds in figures["seeds_until_caught"].items() if not seeds]
    figures["caught"] = len(MUTANTS) - len(escaped)
    assert not escaped, f"{', '.join(escaped)} escaped"


def _seeds_until_caught(mutant: str) -> int:
    """Return after how many seeds a planted bug is seen; 0 where it is not."""
    from tests.simulation import code_mutants, host_mutants, loss_mutants  # noqa: F401 - plants them
    from tests.simulation.mutants import IN_CODES, LOSING, MUTANTS
    from tests.simulation.world import Wrong, run

    policy, coded = Policy.LEAVE if mutant in LOSING else Policy.WAIT, mutant in IN_CODES
    for seed in range(_SEEDS_A_MUTANT):
        try:
            with MUTANTS[mutant]():
                run(seed, harsh=True, policy=policy, coded=coded)
        except Wrong:
            run(
                seed, harsh=True, policy=policy, coded=coded
            )  # it is the bug that was seen only if nothing is without it
            return seed + 1
    return 0


def malformed(scale: Scale, figures: Figures, say: Say) -> None:
    """Send mutated messages through the decoders; each must give a value or a typed refusal."""
    from tests.malformed import corpus

    tally = corpus.judge(scale.malformed)
    figures |= {"messages": scale.malformed, "outcomes": tally.totals, "grown_kib": tally.grown >> 10}


def files(scale: Scale, figures: Figures, say: Say) -> None:
    """Run commands on mutated run folders, specs and data; each must answer or refuse in a sentence, and do no harm."""
    from tests.malformed.file_cases import make_sound
    from tests.malformed.file_corpus import judge

    codes: Counter[int] = Counter()
    wrong: list[str] = []
    figures |= {"cases": 0, "peak_mib": 0}
    with tempfile.TemporaryDirectory() as folder:
        make_sound(Path(folder))
        for verdict in judge(scale.files, scale.first, Path(folder)):
            figures["cases"] += 1
            figures["peak_mib"] = max(figures["peak_mib"], verdict.outcome.memory >> 20)
            codes[verdict.outcome.code] += 1
            wrong += [str(verdict)] if verdict.faults else []
            if not figures["cases"] % _SAID_EVERY:
                say(f"{figures['cases']} of {scale.files} cases, {len(wrong)} wrong")
    figures |= {"exit_codes": {str(code): count for code, count in sorted(codes.items())}, "wrong": len(wrong)}
    assert not wrong, "\n".join(wrong[:5])


def live(scale: Scale, figures: Figures, say: Say) -> None:
    """Send mutated messages to servers of a game under way."""
    suite(figures, "malformed")


def suite(figures: Figures, folder: str, *arguments: str) -> None:
    """Have pytest run a folder of tests, slow ones too; none may fail, and some must be there."""
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", str(TESTS / folder), f"--junitxml={results}", *arguments]
        done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr[-2000:]
        row = next(ET.parse(results).iter("testsuite"))
    counts = {name: int(row.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    figures |= counts
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert not counts["failures"] + counts["errors"], "; ".join(failed)
    assert counts["tests"] > counts["skipped"], "there was nothing to run"


def hostile(scale: Scale, figures: Figures, say: Say) -> None:
    """Play games of six hosts, one of them hostile, over the three policies."""
    from tests.hostile.game import played

    figures |= {"games": 0, "disturbed": 0, "most_growth_mib": 0.0}
    incidents: Counter[str] = Counter()
    policies = list(Policy)
    for seed in range(scale.first, scale.first + scale.hostile):
        with tempfile.TemporaryDirectory() as folder:
            outcome = played(seed, policies[seed % len(policies)], Path(folder) / "game")
        incidents.update(outcome.kinds)
        figures["games"] += 1
        figures["disturbed"] += outcome.disturbed
        figures["most_growth_mib"] = max(figures["most_growth_mib"], round(outcome.growth, 1))
        figures["games_by_kind_of_incident"] = dict(incidents)
        if not figures["games"] % 10:
            say(f"{figures['games']} of {scale.hostile} games, {figures['disturbed']} of them disturbed")


def failpoints(scale: Scale, figures: Figures, say: Say) -> None:
    """Have a process die at every place that has a name."""
    from tests.cluster.deaths import VICTIMS, WORKER, lose_worker, walk

    from slaternet.storage.failpoints import NAMES

    reached: list[str] = []
    figures |= {"places": len(NAMES), "reached": reached}
    for role in VICTIMS:
        with tempfile.TemporaryDirectory() as folder:
            reached += walk(role, Path(folder))
        say(f"{len(reached)} of {len(NAMES)} places reached")
    with tempfile.TemporaryDirectory() as folder:
        lose_worker(Path(folder))
        reached.append(WORKER)
    assert sorted(reached) == sorted(NAMES)


def kills(scale: Scale, figures: Figures, say: Say) -> None:
    """Kill the services of three games in turn and at once; each must end in the digest of its simulation."""
    from tests.cluster.kills import GAMES, draw, strike
    from tests.cluster.loopback import on_loopback
    from tests.cluster.services import simulated

    figures |= {"kills": 0, "digests": {}}
    for name, spec in GAMES.items():
        with tempfile.TemporaryDirectory() as folder, on_loopback(Path(folder), 2, scale.rounds, spec=spec) as game:
            game.start(*game.names)
            for kill in draw(scale.first, game.hosts, scale.rounds):
                strike(game, kill)
                figures["kills"] += len(kill.names)
            digest = game.end_well()
            assert digest == simulated(scale.rounds, spec), f"{name} has ended in {digest}"
            figures["digests"][name] = digest
            say(f"{name} has ended in the digest of its simulation")


def cluster(scale: Scale, figures: Figures, say: Say) -> None:
    """Let the nemesis loose on games between machines, until there were faults enough."""
    from tests.cluster import nemesis

    outcomes: list[nemesis.Outcome] = []
    share = {"kills": min(_KILLS_A_GAME, scale.kills), "others": min(_OTHERS_A_GAME, scale.others)}
    figures |= {"kills": 0, "other_faults": 0}
    while figures["kills"] < scale.kills or figures["other_faults"] < scale.others:
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcomes.append(nemesis.play(scale.first + len(outcomes), Path(folder), **share, say=say))
            except pytest.skip.Exception as reason:
                raise Skipped(str(reason)) from None
        killed = sum((each.kills for each in outcomes), Counter[str]())
        faults = sum((each.faults for each in outcomes), Counter[str]())
        heals = [seconds for each in outcomes for seconds in each.heals]
        figures |= {
            "games": len(outcomes),
            "kills": killed.total(),
            "other_faults": faults.total(),
            "kills_by_role": dict(killed),
            "faults": dict(faults),
            "rounds": sum(each.rounds for each in outcomes),
            "recorded_rounds_lost": 0,  # else there would be no outcome
            "slowest_heal_seconds": round(max(heals), 1),
            "slowest_heal_after_the_last_fault_seconds": round(max(each.heals[-1] for each in outcomes), 1),
            "median_heal_seconds": round(statistics.median(heals), 1),
            "packets": dict(sum((Counter(each.packets) for each in outcomes), Counter[str]())),
            "digests": [each.digest for each in outcomes],
        }


def soak(scale: Scale, figures: Figures, say: Say) -> None:
    """Play for long under mild faults; no process may grow."""
    from tests.cluster.soak import play

    with tempfile.TemporaryDirectory() as folder:
        outcome = play(Path(folder), seconds=scale.soak)
    figures |= {
        "played_seconds": scale.soak,
        "rounds": outcome.rounds,
        "faults": outcome.faults,
        "memory_slope_mib_per_minute": {name: round(each.slope, 2) for name, each in outcome.gauges.items()},
        "files_opened": {name: each.opened for name, each in outcome.gauges.items()},
        "memory_peak_mib": {name: max(each.memory) >> 20 for name, each in outcome.gauges.items()},
    }
    grown = [name for name, each in outcome.gauges.items() if each.slope > _SLOPE or each.opened > 1]
    assert not grown, f"{', '.join(grown)} grew"


def flood(scale: Scale, figures: Figures, say: Say) -> None:
    """Flood coordinator and adversary of a secured game; a killed host comes back and the operator is answered."""
    from tests.cluster import floods

    planned = floods.Scale(scale.connections, scale.at_once, scale.streams)
    if planned.obstacle:
        raise Skipped(planned.obstacle)
    with tempfile.TemporaryDirectory() as folder:
        outcome = floods.play(Path(folder), planned, say)
    figures |= {
        "killed_host_back_in_play_seconds": round(outcome.back, 1),
        "status_seconds": [round(seconds, 1) for seconds in outcome.statuses],
        "stop_seconds": round(outcome.stop, 1),
        "commands_repeated": outcome.unanswered,
        "flood": outcome.counts,
        "rounds": outcome.rounds,
        "memory_peak_mib": {name: max(each.memory) >> 20 for name, each in outcome.gauges.items()},
        "files_peak": {name: max(each.files) for name, each in outcome.gauges.items()},
    }


_ALL = (seeds, mutants, malformed, files, live, hostile, failpoints, kills, cluster, soak, flood)
PARTS = {part.__name__: part for part in _ALL}
"""Everything that is tried, in this order."""
