"""HTTP/2 as raw bytes, for callers that no library would be."""

_MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, data: bytes, stream: int = 1) -> bytes:
    """Return a frame, by default on the first stream."""
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


PREFACE = _MAGIC + frame(4, 0, b"", stream=0)
"""What a client says first; no settings follow. Without TLS that is all of a handshake, with TLS it is none."""

DEAF = _MAGIC + frame(4, 0, b"\x00\x04" + bytes(4), stream=0)
"""The preface of a client that takes no byte of any message."""


def request(method: str) -> bytes:
    """Return the headers of a call, none of them compressed."""
    path, kind = method.encode(), b"application/grpc"
    fields = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x01x\x00\x02te\x08trailers"
    return frame(1, 4, fields + b"\x0f\x10" + bytes([len(kind)]) + kind)
