"""A program that the game starts: what it is started with, how its failures read, and that it ends."""

import fcntl
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.services import reference, small_spec
from tests.unit.adversary.test_sandbox import PLAYER, SPEC, eventually

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet_adversary.plugin import sandbox
from slaternet_adversary.plugin.makers import isolation_of, open_plugin, plays_apart
from slaternet_adversary.plugin.program import StartedProgram

DEADLINE = 60.0
WORKER = f"{shlex.quote(sys.executable)} -m slaternet_adversary.plugin.worker"
ON_PORT = f"exec:{WORKER} --listen 127.0.0.1:{{port}}"
ON_SOCKET = f"exec:{WORKER} --socket {{socket}}"
WALK = Path(__file__).parents[2] / "game" / "plugins" / "walks.py"


def program(folder: Path, text: str, *, interpreter: str = "/bin/sh") -> str:
    """Write a program, and return its path."""
    path = folder / "program"
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def failure(target: str, seconds: float = DEADLINE) -> str:
    """Return how the start of a program fails."""
    with pytest.raises(PluginFailed) as failed, StartedProgram(target) as started:
        started.listening(seconds)
    return str(failed.value)


@pytest.mark.parametrize("command", [ON_PORT, ON_SOCKET])
def test_a_game_with_a_program_ends_in_the_bits_of_the_same_functions_here(command: str, tmp_path: Path) -> None:
    here = small_spec(f"adversary.plugin={WALK}:Walk", "adversary.isolation=none", rounds=20)
    there = small_spec(f"adversary.plugin={command} {WALK}:Walk", rounds=20)

    assert reference(there, tmp_path / "there") == reference(here, tmp_path / "here")


def test_a_program_plays_apart_and_nowhere_else() -> None:
    spec = SPEC.replace(adversary={"plugin": f"{ON_PORT} {WALK}:Walk"})

    assert plays_apart(spec)
    assert isolation_of(spec) == "process"
    with pytest.raises(BadSpec, match=r'^adversary\.isolation = "none" is for Python, .* remove it$'):
        isolation_of(spec.replace(**{"adversary.isolation": "none"}))


# What it is started with

LOOKS = """
import json, os, resource, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), timeout=5.0).close()
    network = True
except OSError:
    network = False
names = "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_NOFILE"
facts = dict(
    arguments=sys.argv, network=network, folder=os.getcwd(), variable=os.environ["OF_THE_PLAYER"],
    read=sys.stdin.read(), limits={name: resource.getrlimit(getattr(resource, name)) for name in names},
)
open(sys.argv[1], "w").write(json.dumps(facts))
"""


@pytest.mark.parametrize("place", ["{port}", "{socket}"])
def test_it_has_the_folder_and_environment_of_its_player_and_limits_and_a_network_only_for_its_port(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_PLAYER", "kept")
    looks, where = program(tmp_path, LOOKS, interpreter=sys.executable), tmp_path / "facts.json"
    with socket.create_server(("127.0.0.1", 0)) as server:
        failure(f"exec:{looks} {where} {server.getsockname()[1]} 'at {place}!'")

    facts: dict[str, Any] = json.loads(where.read_text())
    told = re.fullmatch(r"at (\d+)!" if place == "{port}" else r"at (/.*/plugin)!", facts["arguments"][-1])
    assert told is not None
    assert told[1] not in ("0", str(server))
    assert (facts["folder"], facts["variable"], facts["read"]) == (str(Path.cwd()), "kept", "")
    assert facts["network"] == (place == "{port}" or bool(sandbox.namespaces()))
    assert facts["limits"]["RLIMIT_NOFILE"] == [LIMITS.plugin_files] * 2
    assert facts["limits"]["RLIMIT_DATA"] == [LIMITS.plugin_memory_bytes] * 2
    assert facts["limits"]["RLIMIT_AS"][0] == -1  # reserved address space costs nothing


HEALTH = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
server = grpc.server(ThreadPoolExecutor(2))
class Servicer(health.HealthServicer):
    asked = 0
    def Check(self, request, context):
        self.asked += 1
        open(sys.argv[2], "w").write(str(self.asked))
        serving = health_pb2.HealthCheckResponse
        return serving(status=serving.SERVING if self.asked > 2 else serving.NOT_SERVING)
servicer = Servicer()
health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
server.add_insecure_port("127.0.0.1:" + sys.argv[1])
server.start()
server.wait_for_termination()
"""


def test_it_is_asked_nothing_before_its_health_service_says_that_it_serves(tmp_path: Path) -> None:
    target = f"exec:{program(tmp_path, HEALTH, interpreter=sys.executable)} {{port}} {tmp_path}/asked"

    with StartedProgram(target) as started:
        assert re.fullmatch(r"127\.0\.0\.1:\d+", started.listening(DEADLINE))

    assert (tmp_path / "asked").read_text() == "3"


# Its code


def test_its_hash_is_that_of_program_arguments_files_among_them_and_version(tmp_path: Path) -> None:
    def hashed(target: str, version: str = "1") -> str:
        with StartedProgram(target) as started:
            return started.sha256(version)

    path, data = program(tmp_path, "sleep 60"), tmp_path / "data"
    data.write_text("1")
    target = f"exec:{path} {data} {{port}}"
    first = hashed(target)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("1")

    assert hashed(target) == hashed(f"exec:{program(elsewhere, 'sleep 60')} {elsewhere / 'data'} {{port}}") == first
    assert len({first, hashed(f"{target} more"), hashed(target, "2")}) == 3
    data.write_text("2")
    second = hashed(target)
    program(tmp_path, "sleep 61")
    assert len({first, second, hashed(target)}) == 3


def test_a_program_that_was_killed_is_started_again_elsewhere_unless_it_has_changed(tmp_path: Path) -> None:
    text = f"exec {WORKER} --listen 127.0.0.1:$1 {WALK}:Walk"
    target = f"exec:{program(tmp_path, text)} {{port}}"
    with StartedProgram(target) as started:
        first = started.listening(DEADLINE)
        os.kill(started._process.pid, signal.SIGKILL)
        assert started.killed(first)
        second = started.listening(DEADLINE)
        assert second != first
        assert started.killed(first)
        program(tmp_path, f"true; {text}")
        os.kill(started._process.pid, signal.SIGKILL)
        assert started.killed(second)
        with pytest.raises(PluginFailed, match=r"^the adversary plugin program failed: its program has changed since"):
            started.listening(DEADLINE)


# Failures


def test_a_program_that_cannot_be_started_is_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for name, why in {
        f"{tmp_path}/none": "does not exist; build it or correct the path",
        f"{tmp_path}/text": "may not be executed; run chmod +x on it",
        "no-such-program": "is not installed; install it or name its file",
    }.items():
        spec = SPEC.replace(adversary={"plugin": f"exec:{name} {{port}}"})
        with pytest.raises(BadSpec) as refused, open_plugin(spec):
            pass
        assert str(refused.value) == f"adversary.plugin names the program {name}, which {why}"


def test_a_program_that_ends_at_once_is_a_failure_with_its_exit_code_and_last_words(tmp_path: Path) -> None:
    target = f"exec:{program(tmp_path, 'echo no such colour >&2; exit 3')} {{port}}"
    assert failure(target) == (
        f"the adversary plugin {target} failed before it could be asked anything; its process ended with exit code 3, "
        'and the last that it printed is "no such colour"'
    )
    program(tmp_path, "kill -SEGV $$")
    assert failure(target).endswith("; its process was killed by SIGSEGV, and it has printed nothing")
    (tmp_path / "program").write_bytes(b"\x7fELF but nothing else")
    assert failure(target).endswith(f'"{tmp_path}/program cannot be started: Exec format error"')


def test_a_program_that_never_serves_or_serves_something_else_is_a_failure_in_time(tmp_path: Path) -> None:
    silent = f"exec:{program(tmp_path, 'sleep 600')} {{port}}"
    remedy = "see why it does not serve (it has printed nothing), or allow it more"
    assert failure(silent, 0.5).endswith(f"could not be asked within 0.5 seconds (adversary.seconds); {remedy}")
    listens = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"
    other = f'exec:{shlex.quote(sys.executable)} -c "{listens}" {{port}}'
    assert "could not be asked within 0.5 seconds" in failure(other, 0.5)


def test_a_flood_is_copied_and_ends_in_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flood = program(tmp_path, "yes | head -c 3000000; printf '\\033[31mthe\\nend'; exit 1")

    said = failure(f"exec:{flood} {{port}}")

    assert said.endswith(' y y y ?[31mthe end"')
    assert len(said) < 1000
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("| y\n") == 1_500_000
    assert err.endswith("| ?[31mthe\n" + err[: err.index("|")] + "| end\n")


# Its end


def test_nothing_of_a_program_outlives_its_block_or_a_player_that_is_killed(tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    serve = f"{WORKER} --listen 127.0.0.1:$1 {WALK}:Walk"
    path = program(tmp_path, f"exec 9>>{held}; flock -s 9; sleep 600 & echo held >>{held}; exec {serve}")
    spec = SPEC.replace(adversary={"plugin": f"exec:{path} {{port}}"})

    def free() -> bool:
        with held.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    with open_plugin(spec):
        assert not free()
    eventually(free)
    held.write_text("")
    waits = PLAYER.replace("plugin.play(1, None)", "sys.stdin.read()")
    command = [sys.executable, "-c", waits, spec.to_toml(), ""]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as player:
            eventually(lambda: held.read_text() == "held\n")
            player.send_signal(signal.SIGKILL)
        eventually(lambda: not list(Path(folder).iterdir()))
    eventually(free)
