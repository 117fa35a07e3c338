"""`slaternet adversary-new`: a package to begin an adversary with."""

import shlex
from pathlib import Path
from typing import Annotated

import typer


def adversary_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in specs: words joined by dashes.")],
    where: Annotated[
        Path,
        typer.Option("--dir", help="Where its folder is made; the working directory if absent.", show_default=False),
    ] = Path(),
) -> None:
    """Make a package for an adversary of your own: an example that works, its exam as a test, a spec that plays it."""
    from slaternet_lab.scaffold import create

    folder = create(name, where)
    path = shlex.quote(str(folder))
    typer.echo(f"{folder} holds the adversary {folder.name}; now edit {_module(folder)}, or play it as it is:")
    for command in (
        f"pip install -e {path}",
        f"slaternet adversary-check {folder.name}",
        f"slaternet run {path}/spec.toml",
    ):
        typer.echo(f"  {command}")


def _module(folder: Path) -> Path:
    return folder / folder.name.replace("-", "_") / "adversary.py"
