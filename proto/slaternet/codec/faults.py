"""A plugin's fault as it travels from the process of the plugin to the game: `slaternet.v1.PluginFault`.

By gRPC it is one of the details of a status (`google.rpc.Status` in the trailing metadata `grpc-status-details-bin`),
in a frame of our own worker it follows the sentence of the status. What comes from a plugin is cut to its limits, and
cleaned; what cannot be read is no fault: then the sentence of the status stands alone.
"""

import numpy as np
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from slaternet.codec.wire import read_ids, write_ids
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.plugin_faults import REMEDY, CodeLine, PluginFault
from slaternet.texts import cleaned, cleaned_lines
from slaternet.v1 import plugin_pb2 as pb

DETAILS = "grpc-status-details-bin"
"""The key of the metadata with the details of a status."""

_MOST = LIMITS.metadata_bytes * 3 // 8
"""Bytes of a status with its details: they travel as base64, beside the sentence, within `metadata_bytes`."""
_ROUNDS = 1 << 63


def encode_fault(fault: PluginFault) -> bytes:
    """Return a fault."""
    return _message(fault).SerializeToString()


def decode_fault(data: bytes) -> PluginFault | None:
    """Return a fault; None where the bytes are none."""
    try:
        message = pb.PluginFault.FromString(data)
        agents = read_ids(message.agents[: 4 * LIMITS.fault_agents])
    except (DecodeError, Malformed):
        return None
    return PluginFault(
        error=cleaned(message.error)[: LIMITS.name_bytes],
        message=cleaned(message.message),
        remedy=cleaned(message.remedy) or REMEDY,
        method=cleaned(message.method)[: LIMITS.name_bytes],
        round=message.round if message.round < _ROUNDS else 0,
        agents=tuple(agents.tolist()),
        asked=max(len(agents), message.asked),
        frames=tuple(
            CodeLine(cleaned(each.file), each.line, cleaned(each.function)[: LIMITS.name_bytes], cleaned(each.source))
            for each in message.frames[-LIMITS.fault_frames :]
        ),
        traceback=cleaned_lines(message.traceback),
    )


def encode_status(code: int, sentence: str, fault: PluginFault) -> bytes:
    """Return the details of a status; of a fault that is too long less of its traceback, and fewer frames."""
    message = _message(fault)
    while len(data := _status(code, sentence, message)) > _MOST and (message.traceback or message.frames):
        if message.traceback:
            message.traceback = message.traceback[len(data) - _MOST :]
        else:
            del message.frames[0]
    return data


def decode_status(data: bytes) -> PluginFault | None:
    """Return the fault in the details of a status; None where there is none."""
    try:
        details = pb.CallStatus.FromString(data).details
    except DecodeError:
        return None
    found = (each.value for each in details if each.type_url.rpartition("/")[2] == pb.PluginFault.DESCRIPTOR.full_name)
    value = next(found, None)
    return None if value is None else decode_fault(value)


def _message(fault: PluginFault) -> pb.PluginFault:
    return pb.PluginFault(
        error=fault.error,
        message=fault.message,
        remedy=fault.remedy,
        method=fault.method,
        round=fault.round,
        agents=write_ids(np.array(fault.agents, np.intp)),
        asked=fault.asked,
        frames=[
            pb.CodeLine(file=each.file, line=each.line, function=each.function, source=each.source)
            for each in fault.frames
        ],
        traceback=fault.traceback,
    )


def _status(code: int, sentence: str, message: pb.PluginFault) -> bytes:
    detail = Any()
    detail.Pack(message)
    return pb.CallStatus(code=code, message=sentence, details=[detail]).SerializeToString()
