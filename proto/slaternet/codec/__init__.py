"""The wire format: the only place that knows the generated code of `slaternet.v1`.

Encoders take a head and a record of `slaternet.model`, decoders return them. Bodies with a round take it from the head.
A message that breaks the contract of the .proto files is `Malformed`, before anything of the size it claims is
allocated. Decoders of streams keep unfinished parts: use one decoder for each direction of each stream.
"""

from slaternet.codec import plugin
from slaternet.codec.control import ControlDownDecoder, decode_control_up, encode_control_down, encode_control_up
from slaternet.codec.gossip import GossipDecoder, encode_gossip
from slaternet.codec.reveal import (
    RevealDownDecoder,
    RevealUpDecoder,
    answer_bytes,
    encode_reveal_down,
    encode_reveal_up,
    question_bytes,
)
from slaternet.codec.unary import (
    decode_join,
    decode_status_reply,
    decode_status_request,
    decode_stop_reply,
    decode_stop_request,
    decode_welcome,
    encode_join,
    encode_status_reply,
    encode_status_request,
    encode_stop_reply,
    encode_stop_request,
    encode_welcome,
)

__all__ = [
    "ControlDownDecoder",
    "GossipDecoder",
    "RevealDownDecoder",
    "RevealUpDecoder",
    "answer_bytes",
    "decode_control_up",
    "decode_join",
    "decode_status_reply",
    "decode_status_request",
    "decode_stop_reply",
    "decode_stop_request",
    "decode_welcome",
    "encode_control_down",
    "encode_control_up",
    "encode_gossip",
    "encode_join",
    "encode_reveal_down",
    "encode_reveal_up",
    "encode_status_reply",
    "encode_status_request",
    "encode_stop_reply",
    "encode_stop_request",
    "encode_welcome",
    "plugin",
    "question_bytes",
]
