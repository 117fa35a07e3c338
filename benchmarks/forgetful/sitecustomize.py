"""First on PYTHONPATH, this has every process of a game keep nothing of it: what keeping costs is the difference.

Python imports a module of this name before anything else. Everything else stays as it is, down to what is reported.
"""

import sys

if any(each.startswith("slaternet_") for each in sys.orig_argv):
    from slaternet.environment import prepare

    prepare()

if "slaternet_adversary" in sys.orig_argv:
    from slaternet_adversary.chronicle import Chronicle

    Chronicle.append = lambda self, entry: None  # type: ignore[method-assign]
elif "slaternet_agent" in sys.orig_argv:
    from slaternet_agent.keeper import Keeper

    Keeper.write = lambda self, checkpoint: self.then(lambda: self._kept(checkpoint.round))  # type: ignore[method-assign]
elif "slaternet_coordinator" in sys.orig_argv:
    from slaternet_coordinator.archive import Archive

    Archive.keep = lambda self, memory: None  # type: ignore[method-assign]
