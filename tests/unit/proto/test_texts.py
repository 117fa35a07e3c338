"""Texts of others are one line of plain text, wherever they come from."""

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet import codec
from slaternet.errors import Diverged, Malformed, PluginFailed, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Failed, GameOver, Head, Incident, Join, Role, Status
from slaternet.network.grpc_errors import error_of
from slaternet.spec.plugins import plugin_edge
from slaternet.texts import cleaned, printable
from slaternet.v1 import coordinator_pb2 as pb

HEAD = Head("run-1", 1, 1, "agent-1")
HOSTILE = "\x1b[2J\x9b31mall is well\r\nslaternet: \u202edone\u2028\u200b[red]x[/red]\x07\x00"
HARMLESS = "?[2J?31mall is well slaternet: ?done ?[red]x[/red]??"


@given(st.text(st.characters(), max_size=3000))
def test_any_text_becomes_one_printable_line_that_may_travel(text: str) -> None:
    line = cleaned(text)

    assert line.isprintable()
    assert len(line.encode()) <= LIMITS.text_bytes
    assert cleaned(line) == line


@pytest.mark.parametrize("letter", ["\x00", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800"])
def test_what_has_no_shape_is_shown_as_a_question_mark(letter: str) -> None:
    assert cleaned(f"a{letter}b") == printable(f"a{letter}b") == "a?b"


def test_sentences_stay_as_they_are_and_long_ones_are_cut() -> None:
    sentence = "agent-1: f(x) = [0.5] läßt sich nicht auswerten; correct its code"

    assert cleaned(sentence) == sentence
    assert cleaned("ä" * 1000) == "ä" * (LIMITS.text_bytes // 2)
    assert cleaned(HOSTILE) == HARMLESS


def test_the_codec_cleans_every_sentence_of_a_peer() -> None:
    head = pb.ControlUp(head={"run": "run-1", "epoch": 1, "round": 1, "sender": "agent-1"}).head
    up = pb.ControlUp(head=head, failed=pb.Failed(reason=HOSTILE)).SerializeToString()
    down = pb.ControlDown(head=head, over=pb.Over(failure=HOSTILE)).SerializeToString()
    troubles = [pb.Trouble(ago=1.0, what=HOSTILE)]
    status = pb.StatusReply(head=head, phase="failed", waiting_for=HOSTILE, failure=HOSTILE, troubles=troubles)

    assert codec.decode_control_up(up)[1] == Failed(HARMLESS)
    assert codec.ControlDownDecoder().decode(down) == (HEAD, GameOver(HARMLESS))
    found = codec.decode_status_reply(status.SerializeToString())[1]
    assert (found.waiting_for, found.failure, found.troubles) == (HARMLESS, HARMLESS, (Incident(1.0, HARMLESS),))


def test_our_own_sentences_are_clean_when_they_leave() -> None:
    status = Status(1, "failed", 2, 0, 1, 0.0, 0.0, (), HOSTILE, HOSTILE, troubles=(Incident(1.0, HOSTILE),))
    sent = codec.encode_status_reply(HEAD, status) + codec.encode_control_up(HEAD, Failed(HOSTILE))

    assert b"\x1b" not in sent
    assert HARMLESS.encode() in sent


@pytest.mark.parametrize("address", ["127.0.0.1:1\x1b[2J", "a\n:1", "a\u202e:1"])
def test_an_address_that_cannot_be_printed_is_none(address: str) -> None:
    join = Join(Role.HOST, address, 0, 1, "0" * 64)

    with pytest.raises(Malformed, match="an address is HOST:PORT"):
        codec.decode_join(codec.encode_join(Head("", 0, 0, "agent-1"), join))


@pytest.mark.parametrize(
    ("code", "metadata", "kind"),
    [
        (grpc.StatusCode.DATA_LOSS, (("slaternet-error", "Diverged"),), Diverged),
        (grpc.StatusCode.UNKNOWN, (), SlaternetError),
        (grpc.StatusCode.UNAVAILABLE, (), SlaternetError),
    ],
)
def test_the_status_of_a_peer_is_read_as_plain_text(
    code: grpc.StatusCode, metadata: tuple[tuple[str, str], ...], kind: type[SlaternetError]
) -> None:
    error = error_of(code, HOSTILE * 100, metadata, "10.0.0.9:7000")

    assert isinstance(error, kind)
    assert str(error).isprintable()
    assert len(str(error)) < 2 * LIMITS.text_bytes


def test_what_a_plugin_raises_is_told_as_plain_text() -> None:
    with (
        pytest.raises(PluginFailed) as failed,
        plugin_edge("adversary", "mine.py:Mine", "play", 1),
    ):
        raise ArithmeticError(HOSTILE)

    assert f"raised ArithmeticError: {HARMLESS}, at {__file__}:" in str(failed.value)
