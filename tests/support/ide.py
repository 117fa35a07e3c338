"""An IDE's part of the debug adapter protocol: a command is started under debugpy, with one breakpoint."""

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_DEADLINE = 100.0


class Ide:
    """A connection to the debugger of a process that waits for it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._sent = 0

    def send(self, command: str, **arguments: object) -> None:
        """Send a request."""
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(request).encode()
        self._connection.sendall(b"Content-Length: %d\r\n\r\n" % len(data) + data)

    def wait(self, **wanted: object) -> dict[str, Any]:
        """Return the next message with these fields."""
        while True:
            size = 0
            while header := self._file.readline().strip():
                size = int(header.partition(b":")[2])
            assert size, "the debugger has closed the connection"
            message: dict[str, Any] = json.loads(self._file.read(size))
            if all(message.get(key) == value for key, value in wanted.items()):
                return message

    def asked(self, command: str, **arguments: object) -> dict[str, Any]:
        """Send a request; return the body of the response."""
        self.send(command, **arguments)
        body: dict[str, Any] = self.wait(type="response", command=command)["body"]
        return body

    def stopped(self, expression: str) -> str:
        """Wait at the breakpoint, evaluate an expression there, and go on; return its value."""
        thread = self.wait(event="stopped")["body"]["threadId"]
        frame = self.asked("stackTrace", threadId=thread)["stackFrames"][0]["id"]
        value = self.asked("evaluate", expression=expression, frameId=frame)["result"]
        self.send("continue", threadId=thread)
        return str(value)

    def ended(self) -> None:
        """Wait for the end of the process."""
        self.wait(event="terminated")


@contextlib.contextmanager
def debugged(command: Sequence[object], folder: Path, file: Path, line: int) -> Iterator[Ide]:
    """Run a command of Python under a debugger with a breakpoint; what is left of it is killed with the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # the process connects to us, so that nothing need be tried again until it listens
        starting = [sys.executable, "-m", "debugpy", "--connect", f"127.0.0.1:{port}", "--wait-for-client"]
        process = subprocess.Popen([*starting, *map(str, command)], cwd=folder, stdout=subprocess.DEVNULL)
