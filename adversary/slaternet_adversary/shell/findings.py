"""What was found of a plugin while it played: in the log, and in incidents.jsonl."""

import time
from collections.abc import Callable
from pathlib import Path

import structlog

from slaternet.model import IncidentRecord
from slaternet.texts import cleaned
from slaternet_adversary.api import Adversary
from slaternet_adversary.plugin.calls import name_of
from slaternet_adversary.plugin.observation import FINDINGS, ObservedCalls, Observer, PluginFinding
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.shell.incident_file import read_incidents
from slaternet_adversary.shell.run_folder import RunFolder

_PROCESS = "plugin"

log = structlog.get_logger()


def observed(
    calls: PluginCalls, plugin: Adversary, results: RunFolder, clock: Callable[[], float] = time.perf_counter
) -> PluginCalls:
    """Return the calls of a plugin, which is looked at meanwhile; what is found is logged, and noted as an incident."""

    def tell(found: PluginFinding) -> None:
        seems = "" if found.failed else f" is {found.kind} as it seems"
        sentence = f"the adversary plugin {name_of(plugin)}{seems}: {found.sentence}"
        log.warning(cleaned(sentence), evidence=cleaned(found.evidence))
        results.note(
            IncidentRecord(found.round, time.time(), _PROCESS, found.kind, cleaned(sentence), cleaned(found.evidence))
        )

    known = [each.kind for each in findings(results.folder)]
    return ObservedCalls(calls, Observer(plugin.game), tell, clock, known=known)


def findings(folder: Path) -> list[IncidentRecord]:
    """Return the incidents in a run folder that say what was found of the plugin."""
    return [each for each in read_incidents(folder) if each.process == _PROCESS and each.kind in FINDINGS]
