"""An IDE's part of the debug adapter protocol: `slaternet` is launched as VS Code does it, with one breakpoint."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class Ide:
    """A debug adapter, which launches a command and speaks with its debugger."""

    def __init__(self, adapter: "subprocess.Popen[bytes]") -> None:
        assert adapter.stdin is not None
        assert adapter.stdout is not None
        self._input, self._output = adapter.stdin, adapter.stdout
        self._sent = 0

    def send(self, command: str, **arguments: object) -> None:
        """Send a request."""
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(request).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self._input.flush()

    def wait(self, **wanted: object) -> dict[str, Any]:
        """Return the next message with these fields."""
        while True:
            size = 0
            while header := self._output.readline().strip():
                size = int(header.partition(b":")[2])
            assert size, "the debug adapter has ended"
            message: dict[str, Any] = json.loads(self._output.read(size))
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
def debugged(arguments: Sequence[object], folder: Path, file: Path, line: int) -> Iterator[Ide]:
    """Launch `slaternet` under a debugger with a breakpoint; all that is left is killed with the block."""
    adapter = subprocess.Popen(
        [sys.executable, "-m", "debugpy.adapter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    try:
        ide = Ide(adapter)
        ide.asked("initialize", adapterID="python", linesStartAt1=True)
        launch = {"python": [sys.executable], "module": "slaternet_lab", "args": list(map(str, arguments))}
        ide.send("launch", **launch, cwd=str(folder), console="internalConsole", justMyCode=True)
        ide.wait(event="initialized")
        ide.asked("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": line}])
        ide.send("configurationDone")
        yield ide
    finally:
        os.killpg(adapter.pid, signal.SIGKILL)
        adapter.communicate()
