"""Faults of plugins on the wire: what a worker tells arrives whole, and what anybody else tells is cut and cleaned."""

from google.protobuf.any_pb2 import Any

from slaternet.codec.faults import decode_fault, decode_status, encode_fault, encode_status
from slaternet.limits import LIMITS
from slaternet.plugin_faults import REMEDY, CodeLine, PluginFault
from slaternet.v1 import plugin_pb2 as pb

FAULT = PluginFault(
    error="KeyError",
    message="'lost'",
    remedy="look for it",
    method="loss",
    round=37,
    agents=(2, 5),
    asked=2,
    frames=(CodeLine("/plugins/mine.py", 12, "loss", "return self.prices[t]"),),
    traceback="Traceback (most recent call last):\n  ...\nKeyError: 'lost'",
)


def test_a_fault_arrives_as_it_was_sent() -> None:
    assert decode_fault(encode_fault(FAULT)) == FAULT
    assert decode_status(encode_status(10, FAULT.sentence, FAULT)) == FAULT


def test_the_details_of_a_status_are_those_of_google_rpc() -> None:
    # field by field a google.rpc.Status: code 1, message 2, details 3, written by hand
    detail = Any()
    detail.Pack(pb.PluginFault(error="KeyError"))
    packed = detail.SerializeToString()
    data = b"\x08\x0a" + b"\x12\x03odd" + b"\x1a" + bytes([len(packed)]) + packed

    assert decode_status(data) == PluginFault(error="KeyError")
    assert encode_status(10, "odd", PluginFault(error="KeyError", remedy="")) == data


def test_a_fault_that_is_too_long_for_metadata_loses_its_traceback_first() -> None:
    long = PluginFault(
        error="E", method="loss", frames=FAULT.frames * LIMITS.fault_frames, traceback="x" * 10_000 + "end"
    )

    data = encode_status(10, "odd", long)
    told = decode_status(data)

    assert told is not None
    assert len(data) <= LIMITS.metadata_bytes * 3 // 8
    assert told.traceback.endswith("end")
    assert told.frames == long.frames
    assert decode_fault(encode_fault(long)) == long  # in a frame there is room


def test_what_a_plugin_tells_is_cut_and_cleaned() -> None:
    hostile = "\x1b[2J\nslaternet: all is well\u202e"
    line = pb.CodeLine(file=hostile, line=2**32 - 1, function=hostile * 100, source=hostile * 100)
    told = decode_fault(
        pb.PluginFault(
            error=hostile * 100,
            message=hostile * 100,
            method=hostile,
            round=2**64 - 1,
            agents=bytes(4 * 1000),
            frames=[line] * 100,
            traceback=f"{hostile}\n" * 10_000,
        ).SerializeToString()
    )

    assert told is not None
    assert told.sentence.isprintable()
    assert all(each.isprintable() for each in told.traceback.split("\n"))
    assert len(told.traceback) <= LIMITS.traceback_bytes
    assert len(told.frames) == LIMITS.fault_frames
    assert len(told.agents) == told.asked == LIMITS.fault_agents
    assert (told.round, told.remedy) == (0, REMEDY)
    assert max(len(told.message), len(told.frames[0].source)) <= LIMITS.text_bytes


def test_what_is_no_fault_is_none() -> None:
    other = Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\x01")
    assert decode_fault(b"\xff") is None
    assert decode_fault(pb.PluginFault(agents=b"123").SerializeToString()) is None
    assert decode_status(b"\xff") is None
    assert decode_status(pb.CallStatus(code=10, details=[other]).SerializeToString()) is None
