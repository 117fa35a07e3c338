"""Connections to a process that serves a plugin: gRPC for programs in any language, frames for our own worker.

A frame holds calls, or their answers, in order; numbers are little-endian:

    frame     length of what follows (4 bytes), item, item, ...
    call      method (1 byte: its place in METHODS), length (4), the message of slaternet.v1.Plugin
    answer    whether the call has failed (1 byte), length (4), the reply; or the name of a gRPC status, NUL, a
              sentence, NUL, the plugin's fault if there is one

The worker stops at the first call that fails. A frame takes a tenth of the time of a gRPC call, needs no thread, and
carries the calls of a burst of rounds.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from slaternet.codec import plugin as messages
from slaternet.codec.faults import DETAILS, decode_fault, decode_status, encode_fault
from slaternet.limits import LIMITS
from slaternet.plugin_faults import PluginFault

FRAMES = "frames:"
"""The beginning of the address of a worker that takes frames; the path of its unix socket follows."""
UNHURRIED = ("slaternet-unhurried", "1")
"""Initial metadata of a server whose calls have no deadline: a user may stand at its debugger's prompt."""
METHODS = ("Describe", "Play", "Evaluate", "Score")

_LENGTH = struct.Struct("<I")
_ITEM = struct.Struct("<BI")
_MOST = LIMITS.burst * LIMITS.plugin_message_bytes
_PIECE = 1 << 18


_OPTIONS = (
    ("grpc.max_receive_message_length", LIMITS.plugin_message_bytes),
    ("grpc.max_send_message_length", LIMITS.plugin_message_bytes),
    ("grpc.max_metadata_size", LIMITS.metadata_bytes),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # a connection of its own: failures of another game at this address must not affect us
    ("grpc.use_local_subchannel_pool", 1),
)
_HEALTH_SECONDS = 2.0


class CallFailed(Exception):
    """A call ended with a status instead of a reply."""

    def __init__(self, code: str, details: str, fault: PluginFault | None = None, place: int = 0) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details
        self.fault = fault
        self.place = place
        """How many calls of its frame have succeeded before."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call has no reply: the name of a gRPC status, a sentence in one line, and the plugin's fault."""

    code: str
    sentence: str
    fault: PluginFault | None = None

    @property
    def packed(self) -> bytes:
        """The failure as an answer in a frame."""
        told = b"" if self.fault is None else encode_fault(self.fault)
        return b"\0".join((self.code.encode(), self.sentence.encode(), told))


class Connection(Protocol):
    """A connection; one call at a time."""

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        """Return the reply, within `deadline` seconds; CallFailed otherwise. ValueError after `close`."""

    def close(self) -> None:
        """Close it; a call under way fails."""


def connect(address: str) -> Connection:
    """Return a connection to "frames:/path", "unix:/path" or "host:port"."""
    return FrameConnection(address.removeprefix(FRAMES)) if address.startswith(FRAMES) else GrpcConnection(address)


class GrpcConnection:
    """Calls by gRPC."""

    def __init__(self, address: str) -> None:
        import grpc  # here: a game whose plugin runs in our own worker needs none of it

        self._error = grpc.RpcError
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        # made once: that is a good part of a call
        self._methods: dict[str, Any] = {
            name: self._channel.unary_unary(f"/{messages.SERVICE}/{name}") for name in METHODS
        }
        self._unhurried = False

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        """Return the reply."""
        try:
            if method != "Describe":
                return cast("bytes", self._methods[method](data, timeout=None if self._unhurried else deadline))
            reply, described = self._methods[method].with_call(data, timeout=None if self._unhurried else deadline)
            self._unhurried = UNHURRIED in described.initial_metadata()
            return cast("bytes", reply)
        except self._error as error:
            call = cast("Any", error)
            if not self._unhurried and UNHURRIED in (call.initial_metadata() or ()):
                self._unhurried = True
                if call.code().name == "DEADLINE_EXCEEDED":
                    return self.call(method, data, deadline)
            told = next((value for key, value in call.trailing_metadata() or () if key == DETAILS), None)
            fault = decode_status(told) if isinstance(told, bytes) else None
            raise CallFailed(call.code().name, call.details() or "", fault) from None

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def serves(address: str) -> bool:
    """Return whether gRPC is served at an address, and its health service, if there is one, says so too."""
    import grpc
    from grpc_health.v1 import health_pb2

    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            reply = check(health_pb2.HealthCheckRequest().SerializeToString(), timeout=_HEALTH_SECONDS)
        except grpc.RpcError as error:
            return cast("Any", error).code() is grpc.StatusCode.UNIMPLEMENTED
    serving: bool = health_pb2.HealthCheckResponse.FromString(reply).status == health_pb2.HealthCheckResponse.SERVING
    return serving


class FrameConnection:
    """Calls by frames over a unix socket; they block, or the event loop waits for them."""

    def __init__(self, path: str) -> None:
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._broken = error.strerror or "it cannot be reached"
            self._socket.close()
        else:
            self._broken = ""

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        """Return the reply."""
        there = self._open()
        there.settimeout(deadline)
        try:
            there.sendall(call_frame([(method, data)]))
            return _replies(read_frame(there.recv))[0]
        except OSError as error:
            raise self._failure(error) from None

    async def exchange(self, calls: Sequence[tuple[str, bytes]], deadline: float) -> list[bytes]:
        """Make calls in order, within `deadline` seconds, and return their replies; CallFailed where one fails."""
        there, loop = self._open(), asyncio.get_running_loop()
        there.settimeout(0.0)
        try:
            async with asyncio.timeout(deadline):
                frame = call_frame(calls)
                if (sent := _sent_at_once(there, frame)) < len(frame):
                    await loop.sock_sendall(there, frame[sent:])
                data = bytearray()
                while len(data) < _LENGTH.size or len(data) < _LENGTH.size + _size(data):
                    piece = await loop.sock_recv(there, _PIECE)
                    if not piece:
                        raise ConnectionResetError("the connection was closed")
                    data += piece
        except OSError as error:  # TimeoutError is one
            raise self._failure(error) from None
        except asyncio.CancelledError:
            self.close()  # the next call would read the answer to this one
            raise
        return _replies(memoryview(data)[_LENGTH.size :])

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        if self._broken:
            raise CallFailed("UNAVAILABLE", self._broken)
        if self._socket is None:
            raise ValueError("the connection is closed")
        return self._socket

    def _failure(self, error: OSError) -> CallFailed:
        """Return why a call has failed; no other is possible then, because its answer may still come."""
        late = isinstance(error, TimeoutError)
        self._broken = error.strerror or str(error) or "the connection broke"
        if self._socket is not None:
            self._socket.close()
        return CallFailed("DEADLINE_EXCEEDED" if late else "UNAVAILABLE", self._broken)


def _sent_at_once(there: socket.socket, frame: bytes) -> int:
    """Send what the socket takes without waiting; return how many bytes that is."""
    try:
        return there.send(frame)
    except BlockingIOError:
        return 0


def call_frame(calls: Iterable[tuple[str, bytes]]) -> bytes:
    """Return calls as a frame."""
    return _frame([(METHODS.index(method), data) for method, data in calls])


def answer_frame(answers: Iterable[tuple[bytes, Failure | None]]) -> bytes:
    """Return answers as a frame: each a reply, or why there is none."""
    return _frame([(failure is not None, reply if failure is None else failure.packed) for reply, failure in answers])


def items(frame: memoryview) -> Iterable[tuple[int, bytes]]:
    """Yield the first byte and the content of each item of a frame; ValueError where it is none."""
    at = 0
    while at < len(frame):
        if at + _ITEM.size > len(frame):
            raise ValueError("a frame ends within an item")
        kind, size = _ITEM.unpack_from(frame, at)
        at += _ITEM.size + size
        if at > len(frame):
            raise ValueError("a frame ends within an item")
        yield kind, bytes(frame[at - size : at])


def read_frame(receive: Callable[[int], bytes]) -> memoryview:
    """Return the content of the next frame of a socket that blocks; ConnectionResetError where it has ended."""
    head = _read(receive, _LENGTH.size)
    return memoryview(_read(receive, _size(head)))


def _read(receive: Callable[[int], bytes], size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = receive(min(size - len(data), _PIECE))
        if not piece:
            raise ConnectionResetError("the connection was closed")
        data += piece
    return data


def _size(head: bytearray) -> int:
    (size,) = _LENGTH.unpack_from(head)
    if size > _MOST:
        raise ConnectionResetError("a frame is longer than any that is due")
    return int(size)


def _frame(parts: Sequence[tuple[int, bytes]]) -> bytes:
    pieces = [piece for kind, data in parts for piece in (_ITEM.pack(kind, len(data)), data)]
    return b"".join((_LENGTH.pack(sum(map(len, pieces))), *pieces))


def _replies(frame: memoryview) -> list[bytes]:
    replies: list[bytes] = []
    try:
        for failed, data in items(frame):
            if failed:
                code, _, rest = data.partition(b"\0")
                details, _, told = rest.partition(b"\0")
                fault = decode_fault(told) if told else None
                raise CallFailed(code.decode(errors="replace"), details.decode(errors="replace"), fault, len(replies))
            replies.append(data)
    except ValueError as error:
        raise CallFailed("INTERNAL", str(error)) from None
    return replies
