"""`slaternet run`: the services of a game as child processes on this machine, over gRPC on loopback."""

from pathlib import Path
from typing import Any

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.spec import Spec
from slaternet.spec.debugger import post_mortem
from slaternet.spec.plugins import is_python
from slaternet.storage.journal import Durability
from slaternet_adversary.journal.compaction import check_keep
from slaternet_adversary.plugin.foreground import Foreground
from slaternet_adversary.shell.run_folder import claim, new_folder
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.graphs import check_departures
from slaternet_coordinator.registry import build as build_graph
from slaternet_lab.games.debugged import DebuggedRun
from slaternet_lab.games.finish import finish
from slaternet_lab.games.fork_server import ForkServer
from slaternet_lab.games.manifest import Manifest, write_spec
from slaternet_lab.games.prints import prints_shown
from slaternet_lab.games.processes import Supervisor
from slaternet_lab.games.progress import Watcher
from slaternet_lab.runs.run import Run


def play(
    spec: Spec,
    *,
    hosts: int = 2,
    out: Path | None = None,
    force: bool = False,
    progress: Watcher | None = None,
    figures: bool = True,
    finished: bool = True,
    restart: bool = True,
    durability: Durability = Durability.KILL,
    policy: Policy = Policy.WAIT,
    lost_after: float = LOST_AFTER,
    journal_keep: int | None = None,
    plugin_patience: float = LIMITS.plugin_patience,
    server: ForkServer | None = None,
    debug: bool = False,
) -> Run:
    """Play a resolved spec over gRPC with agent hosts as processes, and return its run folder.

    Ctrl-C or SIGTERM ends the game after the current round, as `slaternet stop` does; a second one kills it. A process
    that dies is restarted, unless `restart` is False: then its death ends the game. With another policy than WAIT, an
    agent host that is absent for `lost_after` seconds is given up, and the game goes on without it. What was played
    survives the death of all processes, or with `durability` FSYNC a loss of power, and `resume` continues it. For a
    game without end, `journal_keep` cuts the journal to so many of its newest rounds. The server of a foreign plugin
    that is gone is dialled again for `plugin_patience` seconds before the game pauses. Without `finished`, the run
    folder gets its figures and assumptions.txt by a later call of `finish`. `server` forks the processes; by default,
    one is started where there can be one. With `debug`, the adversary's plugin is called in this thread, the main one,
    without time limits, and the first error that it raises opens a debugger.
    """
    if debug and not is_python(spec.adversary.plugin):
        raise BadSpec(
            f"--debug is for plugins in Python, and {spec.adversary.plugin} runs elsewhere; debug it there, and leave "
            "--debug out"
        )
    if hosts > spec.run.agents:
        raise BadSpec(
            f"--hosts {hosts} is more than the {spec.run.agents} agents of the game; every host needs an agent"
        )
    check_keep(journal_keep)
    if journal_keep is not None and policy is not Policy.WAIT:
        raise BadSpec(
            f"--journal-keep does not go with --policy {policy}: where a host is given up, others rebuild what it knew "
            "from the whole journal; leave one of them out"
        )
    if policy is Policy.LEAVE:
        check_departures(spec, build_graph(spec.graph, spec.run.agents, spec.run.seed))
    folder = out or new_folder(spec)
    claim(folder, force=force)
    write_spec(folder, spec)
    manifest = Manifest(
        hosts=hosts,
        durability=durability,
        rounds=spec.run.rounds,
        policy=policy,
        lost_after=lost_after,
        journal_keep=journal_keep,
    )
    manifest.write(folder)
    with prints_shown(folder, spec.adversary.plugin, progress) as watcher:
        how: dict[str, Any] = {
            "folder": folder,
            "manifest": manifest,
            "progress": watcher,
            "restart": restart,
            "plugin_patience": plugin_patience,
            "server": server,
        }
        if debug:
            with Foreground(spec.adversary.plugin, "127.0.0.1:0", post_mortem) as foreground:
                DebuggedRun(foreground=foreground, **how).run()
        else:
            Supervisor(**how).run()
    return finish(folder, figures=figures) if finished else Run.open(folder)
