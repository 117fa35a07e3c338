"""First on PYTHONPATH, this has every process of a game keep nothing of it: what keeping costs is the difference.

Python imports a module of this name before anything else. Everything else stays as it is, down to what is reported.
"""

import sys

FORK_SERVER = "slaternet_lab.games.fork_server"

if any(each.startswith("slaternet_") for each in sys.orig_argv):
    from slaternet.service.library_defaults import set_library_defaults

    set_library_defaults()

if {"slaternet_adversary", FORK_SERVER}.intersection(sys.orig_argv):
    from slaternet_adversary.journal.journal import AdversaryJournal

    AdversaryJournal.append = lambda self, entry: None  # type: ignore[method-assign]
if {"slaternet_agent", FORK_SERVER}.intersection(sys.orig_argv):
    from slaternet_agent.shell.checkpoint_writer import CheckpointWriter

    CheckpointWriter.write = lambda self, checkpoint: self.then(lambda: self._kept(checkpoint.round))  # type: ignore[method-assign]
if {"slaternet_coordinator", FORK_SERVER}.intersection(sys.orig_argv):
    from slaternet_coordinator.shell.register_db import RegisterDb

    RegisterDb.save = lambda self, saved: None  # type: ignore[method-assign]
