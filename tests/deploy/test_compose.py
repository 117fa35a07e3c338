"""docker-compose.yml, really played: image, volumes, network and certificates as a user has them."""

import json
import re
from pathlib import Path

import pytest
from tests.deploy.containers import COMPOSE, MACHINES, USER, Engine, Project, eventually, project

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900), pytest.mark.usefixtures("image")]

WRITTEN = {"metrics.csv", "spec.toml", "summary.json", "loss.png", "violation.png"}
OPERATOR = ("--profile", "operator", "run", "--rm", "operator")
PLAINTEXT = ("slaternet", "health", "coordinator:7000", "--insecure")
ENDLESS = """
[run]
name = "endless"
agents = 6
dimension = 3
seed = 1
[set]
kind = "box"
lower = -5.0
upper = 5.0
[algorithm]
name = "zhang2024"
schedule = "table2"
[graph]
name = "ring"
[adversary]
plugin = "linear-regression"
"""


def end_well(game: Project) -> str:
    """Wait for the end of a game that must end well; return its digest."""
    assert set(game.ends().values()) == {0}
    return str(game.summary()["digest"])


def test_the_papers_game_over_mutual_tls_ends_on_the_host_in_the_simulations_digest(
    engine: Engine, tmp_path: Path
) -> None:
    with project(engine, tmp_path / "clone") as game:
        game.up()
        services = [name for name in game.containers() if name != "certs_1"]
        assert len(services) == 2 + 4

        assert end_well(game) == engine.simulated("paper")

        summary = game.summary()
        assert (summary["agents"], summary["rounds"], summary["hosts"]) == (100, 1000, 4)
        (run,) = game.folder.glob("runs/*")
        assert {file.name for file in run.iterdir()} >= WRITTEN
        assert {file.stat().st_uid for file in run.rglob("*")} == {USER}

        game.up()  # again, on what is remembered: everyone says that nothing is left to play
        assert end_well(game) == summary["digest"]
        for name in services:
            assert "is over" in game.log(name).splitlines()[-1]


def test_scale_decides_how_many_hosts_play_and_a_slot_outlives_its_container(engine: Engine, tmp_path: Path) -> None:
    with project(engine, tmp_path / "clone", {"SPEC": "paper-short"}) as game:
        game.up("--scale", "agent=1", "certs", "agent")
        eventually(lambda: "waiting for the coordinator" in game.log("agent_1"), game.logs)
        engine.podman("rm", "--force", "--time=0", f"{game.name}_agent_1")
        game.up("--scale", "agent=2")

        assert end_well(game) == engine.simulated("paper-short")

        assert game.summary()["hosts"] == 2
        joined = re.findall(r"joined .* name=(\S+) role=host", game.log("coordinator_1"))
        assert sorted(joined) == ["agent-1", "agent-2"]  # the first container's name is not lost


def test_a_plugin_in_the_mounted_folder_is_played(engine: Engine, tmp_path: Path) -> None:
    with project(engine, tmp_path / "clone", {"SPEC": "examples/containers.toml", "HOSTS": 2}) as game:
        game.up()

        assert end_well(game) == engine.simulated("examples/containers.toml", "adversary.plugin=examples/bowl.py:Bowl")


def test_a_game_without_end_is_healthy_watched_and_stopped(engine: Engine, tmp_path: Path) -> None:
    with project(engine, tmp_path / "clone", {"SPEC": "examples/endless.toml", "HOSTS": 2}) as game:
        (game.folder / "examples" / "endless.toml").write_text(ENDLESS)
        game.up()
        eventually(lambda: game.scored() > 0, game.logs)

        for name in ("coordinator_1", "adversary_1", "agent_1", "agent_2"):
            engine.podman("healthcheck", "run", f"{game.name}_{name}")
        assert game.inside("coordinator_1", "ls", "/tls").split() == ["coordinator"]
        assert game.inside("adversary_1", "ls", "/tls").split() == ["adversary"]
        assert {*game.inside("agent_1", "ls", "/tls").split()} == {f"agent-{number}" for number in range(1, 33)}
        game.inside("agent_1", "env", "--unset=SLATERNET_TLS", *PLAINTEXT, code=4)
        status = json.loads(game.compose(*OPERATOR, "status", "coordinator:7000", "--json"))
        assert {host["name"] for host in status["hosts"]} >= {"agent-1", "agent-2"}
        game.compose(*OPERATOR, "stop", "coordinator:7000")

        digest = end_well(game)
        (run,) = game.folder.glob("runs/*")
        assert digest == engine.simulated(f"examples/{run.name}", games=game.folder / "runs")


def test_an_agent_host_on_another_machine_needs_its_certificate_and_what_the_environment_says(
    engine: Engine, tmp_path: Path
) -> None:
    both = {"SPEC": "paper-short", "SLATERNET_HOSTS": 2, "SLATERNET_COORDINATOR": "127.0.0.1:7000"}
    first, second = {"SLATERNET_NAME": "agent-1"}, {"SLATERNET_NAME": "agent-2", "SLATERNET_PORT": 7003}
    files = (COMPOSE, MACHINES)
    with (
        project(engine, tmp_path / "here", both | first, files) as here,
        project(engine, tmp_path / "there", both | second, files) as there,
    ):
        there.up("agent")
        assert there.containers().keys() == {"agent_1"}
        eventually(lambda: "waiting for certificates" in there.log("agent_1"), there.logs)
        here.up()
        eventually(lambda: "in place" in here.log("certs_1"), here.logs)
        tar = ("run", "--rm", "-T", "--no-deps", "--entrypoint", "tar")
        handed = here.compose(*tar, "agent", "-C", "/tls", "-c", "agent-2")
        there.compose(*tar, "certs", "-C", "/certs/agents", "-x", given=handed)

        assert end_well(here) == engine.simulated("paper-short")

        assert set(there.ends().values()) == {0}
        assert here.summary()["hosts"] == 2
