"""The image, really built: small, without rights, and of nothing but what is pinned."""

import json
import re
from pathlib import Path

import pytest
from tests.deploy.containers import IMAGE, ROOT, Engine

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900), pytest.mark.usefixtures("image")]

MEGABYTES = 400
"""What the product and its libraries may take, beside the base."""
MOUNTED = {"/state", "/tls", "/slaternet/runs"} | {
    f"/certs/{name}" for name in ("authority", "coordinator", "adversary", "operator", "agents")
}


def test_the_command_is_the_entry_point_and_needs_no_rights(engine: Engine) -> None:
    said = engine.podman("run", "--rm", "--read-only", "--cap-drop=ALL", "--network=none", IMAGE, "--version")

    assert re.fullmatch(r"slaternet \d+\.\d+\.\d+\n", said)


def test_processes_run_as_an_ordinary_user_who_can_write_into_volumes_alone(engine: Engine) -> None:
    shown = engine.inside("sh", "-c", "id -u; find / -xdev -type d -writable -not -path '/proc/*' 2>/dev/null | sort")

    user, *folders = shown.splitlines()
    assert user == "1000"
    assert {*folders} >= MOUNTED
    assert {*folders} - MOUNTED <= {"/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/dev/mqueue"}


def test_nothing_that_was_needed_to_build_is_left(engine: Engine) -> None:
    shown = engine.inside(
        "sh", "-c", "ls -d /source /build /root/.cache /tmp/* 2>/dev/null; command -v cc gcc make hatchling; true"
    )

    assert shown == ""


def test_it_holds_just_what_the_lock_file_pins_and_the_product(engine: Engine) -> None:
    script = "import importlib.metadata as m, json; print(json.dumps([[d.name, d.version] for d in m.distributions()]))"
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)

    installed = json.loads(engine.inside("python", "-Ic", script))

    assert {(_normal(name), version) for name, version in installed if name != "slaternet"} == {
        (_normal(name), version) for name, version in pinned
    }
    assert [name for name, _ in installed].count("slaternet") == 1


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_everything_is_compiled_because_nothing_can_be_written_later(engine: Engine) -> None:
    script = """
    cd /opt/slaternet/lib/python3.11/site-packages
    find . -name '*.py' | sed 's|/\\([^/]*\\)\\.py$|/__pycache__/\\1.cpython-311.pyc|' | sort > /tmp/wanted
    find . -name '*.pyc' | sort > /tmp/there
    comm -23 /tmp/wanted /tmp/there
    """

    assert engine.inside("sh", "-euc", script) == ""


def test_it_is_small(engine: Engine) -> None:
    assert int(engine.inside("du", "-sm", "/opt/slaternet").split()[0]) < MEGABYTES


def test_a_plugin_is_installed_as_the_guide_says(engine: Engine, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "deploy.md").read_text()
    recipe = re.search(r"^```dockerfile\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert recipe is not None
    engine.podman(
        *("run", "--rm", "--user=0", f"--volume={tmp_path}:/here", "--workdir=/here", IMAGE),
        *("adversary-new", "power-market"),
    )
    (tmp_path / "Dockerfile").write_text(recipe[1])
    tag = f"{IMAGE}-with-plugin"
    engine.podman("build", f"--tag={tag}", tmp_path)

    try:
        report = engine.podman("run", "--rm", "--network=none", tag, "adversary-check", "power-market")
        assert re.search(r"^plays +ok", report, re.MULTILINE)
    finally:
        engine.podman("rmi", "--force", tag)
