"""What the files say, without a container engine: hardened services, keys apart, every dependency pinned."""

import re
import tomllib
from functools import partial
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from tests.deploy.containers import COMPOSE, MACHINES, ROOT
from typer.main import get_command

from slaternet_lab.cli import app

COMPOSED: dict[str, Any] = yaml.safe_load((ROOT / COMPOSE).read_text())
OVERRIDE: dict[str, Any] = yaml.safe_load((ROOT / MACHINES).read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSED["services"]
GAME = {"coordinator", "adversary", "agent"}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETTINGS = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE))
IMAGE_HAS = {"python_version": "3.11", "platform_system": "Linux", "sys_platform": "linux"}
each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def volumes(service: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """Return where a service mounts what, and whether it may only read it."""
    mounts = [each.split(":") for each in service["volumes"]]
    return {source: (target, mode == ["ro"]) for source, target, *mode in mounts}


@each_service
def test_a_service_has_no_rights_that_it_does_not_need(service: dict[str, Any]) -> None:
    assert service["user"] == "${SLATERNET_UID:-1000}:${SLATERNET_GID:-1000}"
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] <= 512
    assert service["mem_limit"]
    assert not service.keys() & {"privileged", "cap_add", "devices", "pid", "ipc", "userns_mode", "ports"}


@each_service
def test_a_service_mounts_only_its_own_volumes_and_the_users_two_folders(service: dict[str, Any]) -> None:
    named = {source for source in volumes(service) if not source.startswith("./")}

    assert named <= COMPOSED["volumes"].keys()
    assert volumes(service).keys() - named <= {"./examples", "./runs"}
    assert volumes(service).get("./examples", ("/slaternet/examples", True)) == ("/slaternet/examples", True)


def test_nobody_but_the_adversary_writes_results() -> None:
    assert [name for name, service in SERVICES.items() if "./runs" in volumes(service)] == ["adversary"]


def test_keys_are_read_by_one_role_each_and_that_of_the_ca_by_none() -> None:
    readers = {
        volume: {name for name, service in SERVICES.items() if volume in volumes(service)}
        for volume in COMPOSED["volumes"]
        if not volume.startswith("state-")
    }

    assert readers == {
        "authority": {"certs"},
        "tls-coordinator": {"certs", "coordinator"},
        "tls-adversary": {"certs", "adversary"},
        "tls-operator": {"certs", "operator"},
        "tls-agents": {"certs", "agent"},
    }
    for name, service in SERVICES.items():
        for volume, (target, read_only) in volumes(service).items():
            assert not volume.startswith("tls-") or name == "certs" or (target, read_only) == ("/tls", True)


def test_a_state_belongs_to_one_service() -> None:
    for name in GAME:
        (mine,) = (volume for volume, (target, _) in volumes(SERVICES[name]).items() if target == "/state")
        assert [other for other, service in SERVICES.items() if mine in volumes(service)] == [name]


def test_every_connection_is_secured_and_nothing_can_switch_that_off() -> None:
    assert {name for name, service in SERVICES.items() if service.get("environment", {}).get("SLATERNET_TLS")} == {
        *GAME,
        "operator",
    }
    assert all(SERVICES[name]["environment"]["SLATERNET_TLS"] == "/tls" for name in GAME)
    said = (ROOT / COMPOSE).read_text() + (ROOT / MACHINES).read_text() + (ROOT / ".env").read_text()
    assert "insecure" not in said.lower()


def test_variables_are_those_that_the_commands_know_and_hold_no_secret() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name in GAME:
        known = {option.envvar for option in commands[name].params}
        assert SERVICES[name]["environment"].keys() <= known
        assert OVERRIDE["services"][name]["environment"].keys() <= known
    assert SERVICES["operator"]["environment"].keys() <= {option.envvar for option in commands["status"].params}
    assert all(service.keys().isdisjoint({"env_file", "secrets"}) for service in SERVICES.values())


def test_what_can_be_set_is_used_and_has_the_default_that_is_shown() -> None:
    taken = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (ROOT / COMPOSE).read_text()))

    assert SETTINGS.keys() <= taken.keys()
    assert all(taken[name] == value for name, value in SETTINGS.items())
    assert re.findall(r"(?<!\$)\$\{\w+\}", (ROOT / COMPOSE).read_text()) == []  # none without a default


def test_services_that_fail_are_started_again_but_not_for_ever() -> None:
    assert {SERVICES[name]["restart"] for name in GAME} == {"on-failure:5"}
    assert SERVICES["certs"]["restart"] == "no"


@pytest.mark.parametrize(
    ("name", "identity"), [("coordinator", "coordinator"), ("adversary", "adversary"), ("agent", "host")]
)
def test_health_is_asked_where_the_service_listens(name: str, identity: str) -> None:
    port = SERVICES[name]["environment"]["SLATERNET_LISTEN"].partition(":")[2]

    test = SERVICES[name]["healthcheck"]["test"]

    assert test == f"slaternet health 127.0.0.1:{port} --identity {identity}"


def test_scale_alone_decides_how_many_hosts_play() -> None:
    assert SERVICES["agent"]["deploy"]["replicas"] == "${HOSTS:-4}"
    assert SERVICES["coordinator"]["command"] == ["coordinator", "${SPEC:-paper}"]
    assert "SLATERNET_HOSTS" not in SERVICES["coordinator"]["environment"]


def test_on_one_machine_the_game_has_no_way_out() -> None:
    assert COMPOSED["networks"] == {"default": {"internal": True}}
    assert {name for name, service in SERVICES.items() if "network_mode" in service} == {"certs"}
    assert SERVICES["certs"]["network_mode"] == "none"


def test_on_several_machines_all_use_the_network_of_their_own_one_at_different_ports() -> None:
    assert {name for name, service in OVERRIDE["services"].items() if service["network_mode"] == "host"} == {
        *GAME,
        "operator",
    }
    assert OVERRIDE["services"]["agent"]["deploy"]["replicas"] == "1"
    assert len({SERVICES[name]["environment"]["SLATERNET_LISTEN"] for name in GAME}) == len(GAME)


def test_for_several_machines_no_right_is_added_and_no_key_moved() -> None:
    changed = {"network_mode", "environment", "deploy", "healthcheck"}

    assert OVERRIDE.keys() == {"services"}
    assert all(service.keys() <= changed for service in OVERRIDE["services"].values())
    assert all("SLATERNET_TLS" not in service.get("environment", {}) for service in OVERRIDE["services"].values())


def test_what_differs_between_machines_must_be_said() -> None:
    taken = re.findall(r"\$\{(\w+):([?-])", (ROOT / MACHINES).read_text())

    assert {name for name, how in taken if how == "?"} == {
        "SLATERNET_HOSTS",
        "SLATERNET_COORDINATOR",
        "SLATERNET_NAME",
    }


# The lock files


def locked(name: str) -> dict[str, str]:
    """Return the version of each package in a lock file; every line of it must have been understood."""
    text = (ROOT / name).read_text()
    entry = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n((?:    # .*\n)*)", re.MULTILINE)
    assert re.sub(r"^#.*\n", "", entry.sub("", text), flags=re.MULTILINE) == ""
    return {package: version for package, version, *_ in entry.findall(text)}


def unmet(requirements: list[str], versions: dict[str, str]) -> list[str]:
    """Return the requirements that the image would not meet."""
    wanted = [each for each in map(Requirement, requirements) if not each.marker or each.marker.evaluate(IMAGE_HAS)]
    met = [each for each in wanted if each.name in versions and each.specifier.contains(versions[each.name])]
    return [str(each) for each in wanted if each not in met]


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
    ],
)
def test_a_lock_file_pins_by_hash_what_the_project_asks_for(lock: str, requirements: list[str]) -> None:
    assert unmet(requirements, locked(lock)) == [], "run `make lock`"


def test_a_requirement_that_no_lock_meets_is_noticed() -> None:
    assert unmet(["numpy>=999", "absent"], locked("requirements.lock")) == ["numpy>=999", "absent"]


def test_the_image_installs_nothing_but_what_the_lock_files_pin() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?(?:install|wheel) [^&]*", (ROOT / "Dockerfile").read_text())

    assert len(installs) == 4
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


# The guide

OF_THE_SYSTEM = {"Permission denied"}
GUIDE = (ROOT / "docs" / "deploy.md").read_text()


def test_the_guide_shows_every_variable_with_its_default() -> None:
    taken = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (ROOT / COMPOSE).read_text()))
    rows = re.findall(r"^\| (`[A-Z`, _]+`) \| `?(\w+)`? \|", GUIDE, re.MULTILINE)

    assert {name: value for names, value in rows for name in re.findall(r"\w+", names)} == taken


def test_the_guides_settings_for_several_machines_are_all_that_those_need() -> None:
    block = re.search(r"^```sh\n(COMPOSE_FILE=.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert block is not None
    required = re.findall(r"\$\{(\w+):\?", (ROOT / MACHINES).read_text())

    shown = dict(re.findall(r"^(\w+)=(\S*)", block[1], re.MULTILINE))

    assert shown.keys() == {*required, "COMPOSE_FILE", "SPEC"}
    assert shown["COMPOSE_FILE"] == f"{COMPOSE}:{MACHINES}"


def test_the_sentences_in_the_guide_are_those_that_are_said() -> None:
    files = [*ROOT.glob("*/slaternet*/**/*.py"), ROOT / MACHINES]
    said = re.sub(r'"\n\s*f?"', "", "\n".join(file.read_text() for file in files))  # a long sentence has several lines
    table = GUIDE[GUIDE.index("| symptom |") :]

    quoted = re.findall(r"\*([^*]+)\*", "".join(row.split("|")[2] for row in table.splitlines()))

    assert len(quoted) > 10
    assert [each for each in quoted if each not in OF_THE_SYSTEM and each not in said] == []


def test_the_bowl_among_the_examples_is_the_readmes() -> None:
    find = partial(re.search, flags=re.MULTILINE | re.DOTALL)
    shown = find(r"^<!-- saved as bowl.py -->$\n```python\n(.*?)^```$", (ROOT / "README.md").read_text())

    assert shown is not None
    assert shown[1] == (ROOT / "examples" / "bowl.py").read_text()


def test_the_bowl_for_containers_differs_in_where_its_file_is_looked_up_alone() -> None:
    bowl, contained = (
        tomllib.loads((ROOT / "examples" / name).read_text()) for name in ("bowl.toml", "containers.toml")
    )

    assert contained["adversary"].pop("plugin") == f"examples/{bowl['adversary'].pop('plugin')}"
    assert contained == bowl
