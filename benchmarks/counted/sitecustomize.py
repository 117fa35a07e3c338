"""First on PYTHONPATH, this counts the calls of our own functions in every service of a game.

Python imports a module of this name before anything else. When a service exits, it writes `PID.json` into the folder
that SLATERNET_CALLS names: its name, and the number of calls of each function defined in one of our packages.
Generated code, comprehensions and the resumption of a coroutine or generator do not count.
"""

import atexit
import json
import os
import sys
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

PACKAGES = ("slaternet", "slaternet_agent", "slaternet_coordinator", "slaternet_adversary", "slaternet_lab")
SERVICES = ("slaternet_agent", "slaternet_coordinator", "slaternet_adversary")
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

_threads: list[Counter[CodeType]] = []


def start() -> None:
    """Count the calls of this thread."""
    calls: Counter[CodeType] = Counter()  # one per thread: an increment is not atomic
    _threads.append(calls)

    def count(frame: FrameType, event: str, _argument: object) -> None:
        # The event "call" also reports resumptions: then the argument of the instruction RESUME is not 0.
        if event == "call" and not frame.f_code.co_code[frame.f_lasti + 1] & 3:
            calls[frame.f_code] += 1

    sys.setprofile(count)


def stop(service: str, folder: Path) -> None:
    """Write the counts of all threads."""
    sys.setprofile(None)
    folders = {name: os.path.join(sys.modules[name].__path__[0], "") for name in PACKAGES if name in sys.modules}
    generated = os.path.join(folders.get("slaternet", ""), "v1", "")
    counts: Counter[str] = Counter()
    for calls in _threads:
        for code, number in calls.copy().items():
            path, function = code.co_filename, code.co_qualname
            package = next((name for name, each in folders.items() if path.startswith(each)), None)
            if package and not path.startswith(generated) and code.co_name not in COMPREHENSIONS:
                counts[f"{package}/{path.removeprefix(folders[package])}:{function}"] += number
    words = sys.orig_argv
    name = words[words.index("--name") + 1] if "--name" in words else service.removeprefix("slaternet_")
    document = {"name": name, "calls": counts}
    (folder / f"{os.getpid()}.json").write_text(json.dumps(document))


for _service in SERVICES:
    if ("-m", _service) in pairwise(sys.orig_argv):
        atexit.register(stop, _service, Path(os.environ["SLATERNET_CALLS"]))
        threading.setprofile(lambda _frame, _event, _argument: start())
        start()
