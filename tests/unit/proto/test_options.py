from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from slaternet.service.config import ProcessConfig
from slaternet.service.options import with_process_options
from slaternet.storage.journal import Durability


def heard(*arguments: str, env: dict[str, str] | None = None, **settled: object) -> tuple[ProcessConfig, int]:
    """Return what a command with an option of its own gets to know."""
    seen: list[tuple[ProcessConfig, int]] = []

    @with_process_options(**settled)  # type: ignore[arg-type]
    def command(config: ProcessConfig, seats: int = 0) -> None:
        seen.append((config, seats))

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, arguments, env=env, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


MEMBER = ("--name", "agent-1", "--coordinator", "10.0.0.1:7000")
OPTIONS: dict[str, tuple[str, object]] = {
    "listen": ("0.0.0.0:7001", "0.0.0.0:7001"),
    "advertise": ("10.0.0.2:7001", "10.0.0.2:7001"),
    "state": ("kept", Path("kept")),
    "tls": ("certs", Path("certs")),
    "metrics": ("127.0.0.1:9000", "127.0.0.1:9000"),
    "durability": ("fsync", Durability.FSYNC),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_station_is_what_the_options_or_the_environment_say(option: str) -> None:
    given, meant = OPTIONS[option]
    assert getattr(heard(*MEMBER, f"--{option}", given)[0], option) == meant
    assert getattr(heard(*MEMBER, env={f"SLATERNET_{option.upper()}": given})[0], option) == meant


def test_name_and_coordinator_may_come_from_the_environment_too() -> None:
    env = {"SLATERNET_NAME": "agent-7", "SLATERNET_COORDINATOR": "10.0.0.1:7000", "SLATERNET_INSECURE": "1"}
    config, _ = heard(env=env)
    assert (config.name, config.coordinator, config.insecure) == ("agent-7", "10.0.0.1:7000", True)


def test_a_command_keeps_its_own_options() -> None:
    assert heard(*MEMBER, "--seats", "3")[1] == 3


def test_a_process_with_a_settled_name_has_no_option_for_it() -> None:
    config, _ = heard("--coordinator", "127.0.0.1:7000", "--fresh", name="adversary")
    assert (config.name, config.fresh, config.tls, config.state) == ("adversary", True, None, None)


@pytest.mark.parametrize(
    ("coordinator", "listening"),
    [("127.0.0.1:7000", "127.0.0.1:0"), ("localhost:7000", "127.0.0.1:0"), ("10.0.0.1:7000", "0.0.0.0:0")],
)
def test_who_does_not_say_where_it_listens_is_seen_by_whoever_sees_the_coordinator(
    coordinator: str, listening: str
) -> None:
    assert ProcessConfig("agent-1", coordinator).listening == listening
    assert ProcessConfig("agent-1", coordinator, "10.0.0.2:7001").listening == "10.0.0.2:7001"
