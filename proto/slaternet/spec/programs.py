"""A program that serves an adversary and is started by the game, as a spec names it: `exec:./drones --port {port}`.

Words are separated by spaces and quotes as in a shell, but no shell reads them. `{port}` stands for a free port of
127.0.0.1 and `{socket}` for the path of a unix socket: a program is told one of them, and serves there.
"""

import shlex
from collections.abc import Callable

EXEC = "exec:"
PORT, SOCKET = "{port}", "{socket}"


def is_program(target: str) -> bool:
    """Return whether a target is a program to start."""
    return target.startswith(EXEC)


def words(target: str) -> list[str]:
    """Return the program of such a target and its arguments; ValueError, " must ...", where it is no command."""
    try:
        found = shlex.split(target.removeprefix(EXEC))
    except ValueError:
        raise ValueError(f" must have a closing quote for every quote, not {target!r:.200}") from None
    if not found or not found[0]:
        raise ValueError(f' must name a program, as "{EXEC}./drones --port {PORT}" does, not {target!r:.200}')
    if sum(any(place in word for word in found[1:]) for place in (PORT, SOCKET)) != 1:
        raise ValueError(
            f" must tell the program where to serve, by an argument with either {PORT} or {SOCKET}, not {target!r:.200}"
        )
    return found


def with_paths(target: str, absolute: Callable[[str], str]) -> str:
    """Return such a target with `absolute` of its paths.

    Those are the program where it has a `/`, and arguments that begin with `./` or `../`.
    """
    try:
        program, *arguments = words(target)
    except ValueError:
        return target  # refused where the spec is read
    before = [program, *arguments]
    paths = ["/" in program, *(word.startswith(("./", "../")) for word in arguments)]
    after = [absolute(word) if path else word for word, path in zip(before, paths, strict=True)]
    return target if after == before else EXEC + shlex.join(after)
