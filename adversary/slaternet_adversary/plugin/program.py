"""A program in any language that the game starts: `adversary.plugin = "exec:./drones --port {port}"`.

It serves `slaternet.v1.Plugin` by gRPC and is limited, ended and started again as a worker is, with these differences:

    network     one that serves on {port} keeps it, because nobody else could reach the port; on {socket} it has none
    memory      RLIMIT_DATA instead of RLIMIT_AS: many languages reserve address space that they never use
    errors      quote the last that it has printed
    health      it is asked when it says that it serves, by gRPC's health service if it has one
    change      the program that is started again must be the one that was started first

It need not end by itself: it is killed when the game is over.
"""

import hashlib
import shutil
import socket
from pathlib import Path

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS, Limits
from slaternet.spec.programs import PORT, SOCKET, words
from slaternet.texts import cleaned
from slaternet_adversary.plugin.connections import serves
from slaternet_adversary.plugin.sandbox import NAMESPACES, SandboxedWorker

_HOST = "127.0.0.1"
_RELAY_SECONDS = 0.2
"""How long the last of its output may take to be shown; a process that it has left behind may hold it open."""


class StartedProgram(SandboxedWorker):
    """A program; leaving the block, or `end`, kills it and its child processes."""

    _runs_program = True

    def __init__(self, target: str, limits: Limits = LIMITS) -> None:
        program, *self._words = words(target)
        self._program = _found(program)
        self._on_socket = any(SOCKET in word for word in self._words)
        self._namespaces = tuple(each for each in NAMESPACES if self._on_socket or each != "--net")
        self._content = ""
        self.name = self._program.name
        super().__init__(target, limits)

    def sha256(self, version: str) -> str:
        """Return the hash of its code: of the program, its arguments, and the version that it describes itself with.

        An argument that is the path of a file counts by the content of the file.
        """
        return hashlib.sha256(f"{self._content} {version}".encode()).hexdigest()

    @property
    def manner(self) -> str:
        """How it has ended, as text; empty while it runs."""
        manner = super().manner
        return f"{manner}, and {self._last_words()}" if manner else ""

    def _launch(self) -> None:
        before, self._content = self._content, self._hash()
        if before not in ("", self._content):
            raise PluginFailed(
                f"the adversary plugin {self.name} failed: its program has changed since it was started first, and "
                "cannot take its place; put the old one back, or begin the game anew"
            )
        with socket.create_server((_HOST, 0)) as free:
            self._port = free.getsockname()[1]
        super()._launch()

    @property
    def _hastening(self) -> str:
        return f"see why it does not serve ({self._last_words()})"

    def _command(self) -> list[str]:
        places = {PORT: str(self._port), SOCKET: self._socket}
        arguments = [str(self._program), *self._words]
        for place, value in places.items():
            arguments = [word.replace(place, value) for word in arguments]
        return arguments

    @property
    def _address(self) -> str:
        return f"unix:{self._socket}" if self._on_socket else f"{_HOST}:{self._port}"

    def _listens(self) -> bool:
        if not self._on_socket:
            with socket.socket() as probe:
                reached = not probe.connect_ex((_HOST, self._port))
        else:
            reached = super()._listens()
        return reached and serves(self._address)

    def _hash(self) -> str:
        """Return the hash of the program and its arguments."""
        paths = [self._program, *map(Path, self._words)]
        try:
            parts = [_digest(path) if path.is_absolute() and path.is_file() else str(path) for path in paths]
        except OSError as error:
            raise BadSpec(f"adversary.plugin needs {error.filename}, which cannot be read: {error.strerror}") from None
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _last_words(self) -> str:
        if self._relay is not None and self._exit_code() is not None:
            self._relay.join(_RELAY_SECONDS)
        said = cleaned(self._printed.last.decode(errors="replace"))
        return f'the last that it printed is "{said}"' if said else "it has printed nothing"


def _found(program: str) -> Path:
    """Return the path of a program: a file, or one that is looked up like a command."""
    place = shutil.which(program)
    if place is not None:
        return Path(place).absolute()
    if "/" not in program:
        why = "is not installed; install it or name its file"
    elif not Path(program).is_file():
        why = "does not exist; build it or correct the path"
    else:
        why = "may not be executed; run chmod +x on it"
    raise BadSpec(f"adversary.plugin names the program {program}, which {why}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
