"""Arguments and options that several commands have."""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slaternet.errors import PluginFailed

SpecArgument = Annotated[
    str | None,
    typer.Argument(metavar="SPEC", help="A shipped name, a file or a run folder; the paper's example if absent."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the spec, as in run.rounds=200; repeatable."),
]
AdversaryOption = Annotated[
    str | None,
    typer.Option(
        "--adversary",
        metavar="TARGET",
        help="Another adversary than the spec's: a name, pkg.module:Class, path/file.py:Class, exec:COMMAND or "
        "grpc://HOST:PORT.",
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="The folder for results; a new one in runs/ if absent.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite what is there already.")]
NoFiguresOption = Annotated[bool, typer.Option("--no-figures", help="Draw no figures; `slaternet plot` can later.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", min=1, help="Games at a time; all cores if absent.")]
SEEDS_HELP = "How many seeds: the spec's and the next ones."


def overrides(settings: Sequence[str] | None, adversary: str | None) -> list[str]:
    """Return the settings of --set and --adversary; another adversary than the spec's does not get its options."""
    return [*([] if adversary is None else [f"adversary.plugin={adversary}"]), *(settings or ())]


_TRACEBACK = Annotated[
    bool, typer.Option("--traceback", help="Where a plugin raises an error, show all of the traceback.")
]


def with_traceback(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that calls plugins the option --traceback; without it the author's part is shown."""

    @functools.wraps(command)
    def call(*arguments: Any, traceback: bool = False, **options: Any) -> None:  # noqa: ANN401
        try:
            command(*arguments, **options)
        except PluginFailed as error:
            if traceback and error.fault is not None:
                error.add_note(error.fault.traceback)
            raise

    option = inspect.Parameter("traceback", inspect.Parameter.KEYWORD_ONLY, annotation=_TRACEBACK, default=False)
    own = inspect.signature(command)
    call.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), option]
    )
    call.__annotations__ = {**command.__annotations__, "traceback": _TRACEBACK}
    return call
