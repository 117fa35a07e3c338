"""Debugging a plugin: commands that call it where the terminal is, and a server for it in a terminal of its own."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from slaternet.errors import BadSpec, PluginFailed
from slaternet.network.addresses import check_address, is_loopback
from slaternet.service.options import InsecureOption

DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug", help="Call the plugin in this process, without time limits; on its first error, open a debugger."
    ),
]

_ANEW = "a plugin calls a debugger: from here on it is called in this process, again from round 1"

T = TypeVar("T")


def with_debugger(work: Callable[[bool], T], *, wanted: bool, as_json: bool) -> T:
    """Return what `work(debugged)` returns; it calls plugins, in this process if `debugged`.

    They are called here where that is `wanted`, where a debugger follows this process, and where a plugin calls one in
    its worker: then the work begins anew. With `as_json` nothing of all that is written to standard output.
    """
    from slaternet.spec.debugger import DebuggerNeeded, debugged, is_debugged, post_mortem

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        if not (wanted or is_debugged()):
            try:
                return work(False)
            except DebuggerNeeded:
                if sys.stdin is None or not sys.stdin.isatty():
                    raise
                typer.echo(_ANEW, err=True)
        with debugged():
            try:
                return work(True)
            except PluginFailed as error:
                if wanted and error.__cause__ is not None:
                    post_mortem(error.__cause__)
                raise


def adversary_serve(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A name, pkg.module:Class or path/file.py:Class of an adversary.")
    ],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    insecure: InsecureOption = False,
) -> None:
    """Serve an adversary from this terminal, for games that are played elsewhere: its prints and its debugger are here.

    Calls of it have no time limit. Ctrl-C ends it.
    """
    from slaternet.spec.debugger import debugged
    from slaternet.spec.plugins import ADVERSARIES, absolute, is_foreign, is_python, load
    from slaternet_adversary.plugin.foreground import Foreground

    check_address(listen, what="--listen", free=True)
    if not is_loopback(listen) and not insecure:
        raise BadSpec(
            f"--listen {listen} is not on loopback, and calls of a plugin are not secured; choose 127.0.0.1, or permit "
            "it with --insecure"
        )
    if is_foreign(target):
        raise BadSpec(f"TARGET {target} is served already; name a plugin in Python")
    if not is_python(target):
        raise BadSpec(f"TARGET {target} is a program, which serves by itself; start it, or name a plugin in Python")
    plugin = absolute(target, Path.cwd())
    load(ADVERSARIES, plugin, key="TARGET")  # a mistake in it is reported here and now
    with Foreground(plugin, listen) as served, debugged(), contextlib.suppress(KeyboardInterrupt):
        typer.echo(f"{target} is served until Ctrl-C; play it with --adversary grpc://{served.address}")
        served.run()
