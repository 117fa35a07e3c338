"""gRPC on a virtual network: stands in for `grpc.aio.server` and `grpc.aio.insecure_channel`.

What it promises is what gRPC over TCP promises. A stream is ordered and loses nothing while it lasts, but it may break
at any message: what was under way is lost from some message on, and each end learns of it in its own time, or only by
the silence. A link that is clogged or cut, one way or both, holds everything back until it heals. A unary call may be
lost on its way there, where nothing has happened, or on its way back, where everything has.

So the loss of a message is the loss of all that follow it on its stream, and messages come again and out of order
because streams are opened again. Beyond that, where the engines promise that a message that comes twice changes
nothing, messages are doubled on a stream that lasts: at once, or, of frames, questions and answers, after later ones.
Frames may also overtake each other. The first message of either direction, which opens the stream, is spared that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.air import Air, Weather
from tests.simulation.calls import Channel, Server
from tests.simulation.loop import Life, Loop
from tests.simulation.streams import Stream


class Network(Air):
    """Every server of the world, by address, and the streams between them."""

    def __init__(self, loop: Loop, weather: Weather) -> None:
        super().__init__(loop, weather)
        self._servers: dict[str, Server] = {}
        self._streams: list[Stream] = []
        self._ports = 20_000

    def server(self, *_: object) -> Server:
        """Stand in for grpc.aio.server."""
        return Server(self)

    def channel(self, address: str, **_: object) -> Channel:
        """Stand in for grpc.aio.insecure_channel."""
        return Channel(self, address)

    @contextmanager
    def reserved(self, listen: str) -> Iterator[str]:
        """Stand in for slaternet.network.addresses.reserved."""
        host, _, port = listen.rpartition(":")
        self._ports += 1
        yield listen if int(port) else f"{host}:{self._ports}"

    def bind(self, server: Server, listen: str) -> int:
        """Return the port that a server listens on; RuntimeError where it is taken."""
        host, _, port = listen.rpartition(":")
        number = int(port)
        if not number:
            self._ports += 1
            number = self._ports
        address = f"{host}:{number}"
        older = self._servers.get(address)
        if older is not None and older.life.alive and older.listening:
            raise RuntimeError("the port is taken")
        self._servers[address] = server
        return number

    def at(self, address: str) -> Server | None:
        """Return who listens at an address."""
        server = self._servers.get(address)
        return server if server is not None and server.listening and server.life.alive else None

    def name_of(self, address: str) -> str:
        """Return whose address it is; empty where nobody listens there."""
        server = self.at(address)
        return server.life.name if server is not None else ""

    def enter(self, stream: Stream) -> None:
        """Keep a stream, to break it when one of its ends dies."""
        self._streams = [each for each in self._streams if not each.over]
        self._streams.append(stream)

    def bereave(self, life: Life) -> None:
        """Break the streams of a process that has died."""
        for stream in self._streams:
            if life in (stream.client.life, stream.server.life):
                stream.snap()

    @property
    def streams(self) -> list[Stream]:
        """Those that last."""
        return [each for each in self._streams if not each.over]
