"""The `slaternet` command."""

from slaternet.service.library_defaults import set_library_defaults

set_library_defaults()

import functools
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import structlog
import typer

from slaternet.service.logs import error_logger
from slaternet.service.main import main as run_program
from slaternet_agent.shell.command import agent
from slaternet_lab.commands import (
    adversaries,
    adversary,
    adversary_call,
    algorithm,
    certs,
    code,
    compare,
    debugging,
    graph,
    play,
    record,
    runs,
    services,
    specs,
    verify,
)

app = typer.Typer(
    name="slaternet",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slaternet {version('slaternet')}")
        raise typer.Exit


@app.callback()
def slaternet(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Distributed bandit convex optimisation with time-varying constraints, played over a real network."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Keep typer from an EOFError, which it takes for the user's closing the terminal: "Aborted." and no cause."""

    @functools.wraps(command)
    def call(*arguments: Any, **options: Any) -> None:  # noqa: ANN401
        try:
            command(*arguments, **options)
        except EOFError as error:
            raise RuntimeError("a file or stream ended early") from error

    return call


def _register(command: Callable[..., None], panel: str, example: str) -> None:
    app.command(rich_help_panel=panel, epilog=f"Example: {example}")(guarded(command))


_PLAY, _LOOK, _AFTER, _SERVICES = "Play", "Before a game", "After a game", "Services"

_register(play.run, _PLAY, "slaternet run paper --hosts 4 --set run.rounds=200")
_register(play.resume, _PLAY, "slaternet resume runs/mine --rounds 2000")
_register(play.simulate, _PLAY, "slaternet simulate mine.toml --adversary mine.py:Mine --watch")
_register(compare.compare, _PLAY, "slaternet compare paper --algorithms zhang2024,yi2023 --seeds 10 --out runs/two")
_register(verify.verify, _PLAY, "slaternet verify mine.toml --theorem 2 --seeds 20")
_register(specs.specs, _LOOK, "slaternet specs paper > mine.toml")
_register(specs.check, _LOOK, "slaternet check mine.toml")
_register(graph.graph, _LOOK, "slaternet graph paper --rounds 1:100 --out W.npz")
_register(record.record, _LOOK, "slaternet record paper --out paper.npz --set run.rounds=200")
_register(algorithm.algorithm_check, _LOOK, "slaternet algorithm-check mine.py:Mine --set algorithm.gamma0=0.1")
_register(code.code_check, _LOOK, "slaternet code-check mine.py:Mine --set gossip.width=0.1")
_register(adversaries.adversaries, _LOOK, "slaternet adversaries moving-target")
_register(adversary.adversary_check, _LOOK, "slaternet adversary-check mine.py:Mine --set adversary.options.b=1")
_register(adversary_call.adversary_call, _LOOK, "slaternet adversary-call mine.py:Mine runs/mine")
_register(adversary.adversary_new, _LOOK, "slaternet adversary-new power-market --dir plugins")
_register(debugging.adversary_serve, _LOOK, "slaternet adversary-serve mine.py:Mine --listen 127.0.0.1:7100")
_register(runs.show, _AFTER, "slaternet show runs/mine --json")
_register(runs.plot, _AFTER, "slaternet plot runs/mine runs/yours --out figures")
_register(runs.export, _AFTER, "slaternet export runs/mine --format csv,parquet,npz")
_register(runs.regret, _AFTER, "slaternet regret runs/mine")
_register(runs.diff, _AFTER, "slaternet diff runs/mine runs/yours")
_register(runs.audit, _AFTER, "slaternet audit runs/mine")
_register(certs.certs, _SERVICES, "slaternet certs certificates --hosts 8")
_register(services.coordinator, _SERVICES, "slaternet coordinator paper --hosts 2 --listen 127.0.0.1:7000")
_register(services.adversary, _SERVICES, "slaternet adversary --coordinator 127.0.0.1:7000 --out runs/first")
_register(agent, _SERVICES, "slaternet agent --name agent-1 --coordinator 127.0.0.1:7000")
_register(services.status, _SERVICES, "slaternet status 127.0.0.1:7000 --watch")
_register(services.stop, _SERVICES, "slaternet stop 127.0.0.1:7000")
_register(services.health, _SERVICES, "slaternet health 127.0.0.1:7000")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit."""
    structlog.configure(logger_factory=error_logger)
    run_program("slaternet", lambda: app(arguments, prog_name="slaternet"))
