"""The command-line options that all services share; each can also be set by an environment variable."""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from slaternet.service.config import ProcessConfig
from slaternet.service.logs import configure_log
from slaternet.storage.journal import Durability

TlsOption = Annotated[
    Path | None,
    typer.Option(
        envvar="SLATERNET_TLS", metavar="DIR", help="Certificates, as `slaternet certs` makes them: secures everything."
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option("--insecure", envvar="SLATERNET_INSECURE", help="Allow connections off this machine without TLS."),
]

_METRICS = "127.0.0.1:0"


def _option(type: object, default: object, name: str, help: str, **more: Any) -> tuple[object, object]:  # noqa: ANN401
    return Annotated[type, typer.Option(envvar=f"SLATERNET_{name}", help=help, **more)], default


_REQUIRED = inspect.Parameter.empty
_OPTIONS: dict[str, tuple[object, object]] = {
    "name": _option(
        str, _REQUIRED, "NAME", "A name of its own, such as agent-1; auto: the lowest that is free in --state."
    ),
    "coordinator": _option(str, _REQUIRED, "COORDINATOR", "Its HOST:PORT.", metavar="HOST:PORT"),
    "listen": _option(
        str, "", "LISTEN", "Where to listen; port 0, or no address at all, takes a free port.", metavar="HOST:PORT"
    ),
    "advertise": _option(
        str, "", "ADVERTISE", "Where others reach it. Absent: the address facing the coordinator.", metavar="HOST:PORT"
    ),
    "state": _option(
        Path | None, None, "STATE", "What survives a restart, in a folder of the process's name.", metavar="DIR"
    ),
    "fresh": (Annotated[bool, typer.Option("--fresh", help="Forget what the state holds, and begin anew.")], False),
    "tls": (TlsOption, None),
    "insecure": (InsecureOption, False),
    "metrics": _option(
        str, _METRICS, "METRICS", "Where Prometheus finds /metrics; port 0 takes a free one.", metavar="HOST:PORT"
    ),
    "durability": _option(
        Durability, Durability.KILL, "DURABILITY", "What was acknowledged survives: kill -9, or with fsync a power cut."
    ),
    "log_level": _option(str, "info", "LOG_LEVEL", "debug, info, warning or error."),
    "log_format": _option(str, "console", "LOG_FORMAT", "console, or json: an object a line."),
}


def with_process_options(
    *, name: str = "", listen: str = "", without: Iterable[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a process; it receives them as the ProcessConfig `config`.

    A process with a fixed `name` has no option for it, nor any of those in `without`.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = [each for each in inspect.signature(command).parameters.values() if each.name != "config"]
        shared = [
            inspect.Parameter(
                option,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=listen if option == "listen" else default,
            )
            for option, (annotation, default) in _OPTIONS.items()
            if option not in without and not (option == "name" and name)
        ]

        @functools.wraps(command)
        def configured(**given: Any) -> None:  # noqa: ANN401
            configure_log(given.pop("log_level"), given.pop("log_format"))
            chosen = {each.name: given.pop(each.name) for each in shared if each.name in given}
            command(config=ProcessConfig(**{"name": name, **chosen}), **given)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + shared
        configured.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        configured.__annotations__ = {each.name: each.annotation for each in parameters}
        return configured

    return wrap
