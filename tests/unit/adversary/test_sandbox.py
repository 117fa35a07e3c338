"""A plugin's worker: what it finds around it, what it may use, and that nothing of it outlives its game."""

import fcntl
import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary
from slaternet_adversary.plugin import sandbox
from slaternet_adversary.plugin.connections import FRAMES
from slaternet_adversary.plugin.makers import isolation_of, open_plugin
from slaternet_adversary.plugin.sandbox import namespaces

DEADLINE = 60.0
SPEC = Spec.parse(
    """
[run]
agents = 2
dimension = 1
[set]
kind = "ball"
radius = 1.0
[algorithm]
name = "zhang2024"
[graph]
name = "ring"
[adversary]
plugin = "linear-regression"
""",
    source="test",
)
PLUGIN = """
import fcntl, json, os, resource, signal, socket, sys, threading, time
from pathlib import Path
import numpy as np
from slaternet_adversary import Adversary

class Functions:
    def loss(self, agents, points):
        return points[..., 0]
    def constraint(self, agents, points):
        return points[..., :0]
    def loss_gradient(self, agents, points):
        return np.ones(points.shape)

class Looks(Adversary):
    constraints = 0
    def __init__(self, game, *, port=0, where=""):
        super().__init__(game)
        if port < 0:
            raise ValueError("no such port")
        self._port, self._where = port, where

    def play(self, round, past):
        names = ("RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_NPROC")
        limits = {name: resource.getrlimit(getattr(resource, name)) for name in names}
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5.0).close()
            network = True
        except OSError:
            network = False
        facts = dict(
            pid=os.getpid(), limits=limits, network=network, folder=os.getcwd(),
            variable=os.environ["OF_THE_PLAYER"], read=sys.stdin.read(), path=sys.path,
        )
        Path(self._where).write_text(json.dumps(facts))
        return Functions()

class Holds(Looks):
    def play(self, round, past):
        os.fork()
        file = open(self._where, "a")
        fcntl.flock(file, fcntl.LOCK_SH)
        file.write("held ")
        file.flush()
        threading.Event().wait()
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plugin") / "looks.py"
    path.write_text(PLUGIN)
    return f"{path}:Looks"


def spec_of(target: str, **options: object) -> Spec:
    return SPEC.replace(adversary={"plugin": target, "options": options})


@pytest.fixture(scope="module", params=["with namespaces", "without namespaces"])
def namespaced(request: pytest.FixtureRequest) -> Iterator[bool]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "without namespaces":
            patch.setattr(sandbox, "namespaces", lambda: "this test forbids them")
        elif hindrance := sandbox.namespaces():
            pytest.skip(hindrance)
        yield request.param == "with namespaces"


@pytest.fixture(scope="module")
def facts(namespaced: bool, target: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a plugin sees of the world."""
    where = tmp_path_factory.mktemp("facts") / "facts.json"
    started: list[subprocess.Popen[bytes]] = []

    def popen(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*given, **named))
        return started[-1]

    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        patch.setenv("OF_THE_PLAYER", "kept")
        sandbox.namespaces()  # it probes with a process of its own, which is not the worker
        patch.setattr(sandbox, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": popen}))
        with open_plugin(spec_of(target, port=server.getsockname()[1], where=str(where))) as (plugin, _):
            plugin.play(1, None)
            # Values from here: inside a namespace a leader outside of it has the number 0.
            (worker,) = started
            leads = os.getsid(worker.pid) == worker.pid
    seen: dict[str, Any] = json.loads(where.read_text())
    return seen | {"namespaced": namespaced, "leads": leads}


def test_a_worker_is_a_session_apart(facts: dict[str, Any]) -> None:
    assert facts["leads"]
    assert facts["pid"] != os.getpid()


def test_a_worker_keeps_folder_environment_and_modules_of_its_player_but_not_its_input(facts: dict[str, Any]) -> None:
    assert facts["folder"] == str(Path.cwd())
    assert facts["variable"] == "kept"
    assert facts["path"] == sys.path
    assert facts["read"] == ""


def test_a_worker_has_limits(facts: dict[str, Any]) -> None:
    limits = facts["limits"]
    assert limits["RLIMIT_NOFILE"] == [LIMITS.plugin_files] * 2
    assert 0 < limits["RLIMIT_AS"][0] - LIMITS.plugin_memory_bytes < 4 << 30
    assert limits["RLIMIT_AS"][0] == limits["RLIMIT_AS"][1]
    assert (limits["RLIMIT_NPROC"] == [LIMITS.plugin_processes] * 2) == facts["namespaced"]


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has namespaces")
@pytest.mark.parametrize(("killed", "hindrance"), [(3, ""), (1000, "unshare ended with exit code -9")])
def test_a_probe_that_is_killed_does_not_cost_a_worker_its_namespaces(
    killed: int, hindrance: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unshare = tmp_path / "unshare"
    unshare.write_text(f'#!/bin/sh\necho >>"$0.tried"\ntest $(wc -l <"$0.tried") -gt {killed} || kill -9 $$\n')
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert namespaces.__wrapped__() == hindrance


def test_a_worker_has_network_only_where_there_are_no_namespaces(facts: dict[str, Any]) -> None:
    assert facts["network"] != facts["namespaced"]


@contextmanager
def worker(target: str) -> Iterator[tuple[sandbox.SandboxedWorker, Path]]:
    """Give a worker that listens, and its socket."""
    with sandbox.SandboxedWorker(target) as started:
        yield started, Path(started.listening(DEADLINE).removeprefix(FRAMES))


def test_the_socket_is_its_owner_s_alone_and_goes_with_the_worker(target: str) -> None:
    with worker(target) as (started, path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert started.manner == ""

    assert not path.parent.exists()
    assert started.manner == "was killed by SIGKILL"
    started.end()  # again is as well


def test_a_worker_that_cannot_begin_is_a_failure_of_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(PluginFailed, match=r"could not be asked within 0 seconds \(adversary\.seconds\); make"),
        sandbox.SandboxedWorker("a.py:A") as slow,
    ):
        slow.listening(0.0)
    monkeypatch.setattr(sys, "executable", "false")
    with (
        pytest.raises(PluginFailed, match=r"its process ended with exit code 1$"),
        sandbox.SandboxedWorker("a.py:A") as dead,
    ):
        dead.listening(DEADLINE)


PLAYER = """
import sys
from slaternet.spec import Spec
from slaternet_adversary.plugin import sandbox as isolation
from slaternet_adversary.plugin.makers import open_plugin

spec, forbidden = sys.argv[1:]
if forbidden:
    isolation.namespaces = lambda: forbidden
with open_plugin(Spec.parse(spec, source="test")) as (plugin, _):
    plugin.play(1, None)
"""


def test_no_worker_outlives_a_player_that_is_killed(namespaced: bool, target: str, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    spec = spec_of(target.replace("Looks", "Holds"), where=str(held))
    command = [sys.executable, "-c", PLAYER, spec.to_toml(), "" if namespaced else "this test forbids them"]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        with subprocess.Popen(command, env={**os.environ, "TMPDIR": folder}) as player:
            eventually(lambda: held.read_text().count("held") == 2)  # the plugin and its child are at work
            assert len(list(Path(folder).iterdir())) == 1
            player.send_signal(signal.SIGKILL)
        eventually(lambda: not list(Path(folder).iterdir()))

    def free() -> bool:
        with held.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    eventually(free)


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < until, "the deadline has passed"
        time.sleep(0.01)  # the next look; nothing depends on its length


# Which plugins play apart


@pytest.mark.parametrize(
    ("plugin", "said", "isolated"),
    [
        ("linear-regression", None, "none"),
        ("slaternet_adversary.builtin.moving_target:MovingTarget", None, "none"),
        ("linear-regression", "process", "process"),
        ("mine.py:Mine", None, "process"),
        ("mine.py:Mine", "none", "none"),
        ("pkg.module:Mine", None, "process"),
        ("grpc://localhost:5000", None, "none"),
        ("grpc://localhost:5000", "none", "none"),
    ],
)
def test_what_does_not_ship_with_us_plays_apart_unless_the_spec_says_otherwise(
    plugin: str, said: str | None, isolated: str
) -> None:
    assert isolation_of(SPEC.replace(**{"adversary": {"plugin": plugin}, "adversary.isolation": said})) == isolated


def test_a_program_elsewhere_cannot_play_in_a_worker_of_ours() -> None:
    spec = SPEC.replace(adversary={"plugin": "grpc://localhost:5000", "isolation": "process"})

    with pytest.raises(BadSpec, match=r'^adversary\.isolation = "process" is for Python, and grpc:'):
        isolation_of(spec)


def test_the_code_of_a_plugin_that_plays_apart_is_hashed_and_not_executed_here(target: str) -> None:
    sha256 = hashlib.sha256(PLUGIN.encode()).hexdigest()

    with open_plugin(spec_of(target)) as (plugin, description):
        assert isinstance(plugin, Adversary)
        assert (description.constraints, description.history, description.code) == (0, 0, sha256)

    assert [name for name in sys.modules if sha256 in name] == []


def test_gradients_are_looked_for_in_the_worker(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_PLAYER", "kept")
    spec = spec_of(target, where=str(tmp_path / "facts")).replace(**{"feedback.points": 1})

    with open_plugin(spec.replace(**{"feedback.loss_gradient": True})) as (plugin, description):
        assert description.loss_gradient
        points = np.zeros((2, 1, 1))
        slopes = plugin.play(1, None).loss_gradient(np.arange(2), points)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(slopes, np.ones(points.shape))
    granted = spec.replace(**{"feedback.constraint_gradient": True})
    with pytest.raises(BadSpec, match=r"^feedback.constraint_gradient = true needs"), open_plugin(granted):
        pass


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"prot": 1}, BadSpec, r"^adversary\.options\.prot is not an option of Looks; did you mean port\?$"),
        (
            {"port": -1},
            PluginFailed,
            r"adversary plugin Looks failed: .*its constructor raised ValueError: no such port, at ",
        ),
    ],
)
def test_options_are_judged_in_the_worker(
    target: str, options: dict[str, object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence), open_plugin(spec_of(target, **options)):
        pass
