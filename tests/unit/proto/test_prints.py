"""What plugins print becomes lines with a label, whatever it is and in whatever pieces it comes."""

import contextlib
import io
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.limits import LIMITS
from slaternet.prints import LabelledLines, Printed, label_of, labelled

Shown = pytest.CaptureFixture[str]


def shown(pieces: list[bytes], capsys: Shown) -> str:
    """Return what is shown of some bytes."""
    lines = LabelledLines("mine")
    for piece in pieces:
        assert lines.write(piece) == len(piece)
    lines.finish()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"not ended", ["not ended"]),
        (b"[[1 2]\n [3 4]]\n", ["[[1 2]", " [3 4]]"]),
        (b"\r 10%\r 20%\r\n", [" 10%", " 20%"]),
        (b"caf\xe9 \x1b[31mred\x07\n", ["caf\ufffd ?[31mred?"]),
        (b"a\tb\n", ["a       b"]),
        (b"\n\n", []),
    ],
)
def test_every_line_has_the_label_and_is_plain_text(printed: bytes, lines: list[str], capsys: Shown) -> None:
    assert shown([printed], capsys).splitlines() == [f"mine| {line}" for line in lines]


@given(st.lists(st.binary(max_size=40)))
def test_the_pieces_in_which_it_comes_do_not_matter(pieces: list[bytes]) -> None:
    texts = []
    for each in (pieces, [b"".join(pieces)]):
        with contextlib.redirect_stderr(io.StringIO()) as text:
            lines = LabelledLines("mine")
            for piece in each:
                lines.write(piece)
            lines.finish()
        texts.append(text.getvalue())

    assert texts[0] == texts[1]


def test_a_line_without_an_end_is_shown_in_pieces(capsys: Shown) -> None:
    text = shown([b"x" * 100] * 100, capsys)

    assert max(map(len, text.splitlines())) == len("mine| ") + LIMITS.text_bytes
    assert text.count("x") == 10_000


def test_a_pipe_is_shown_until_its_other_end_is_closed(capsys: Shown) -> None:
    printed, (reading, writing) = Printed("mine"), os.pipe()
    thread = threading.Thread(target=printed.relay, args=(reading,))
    thread.start()
    os.write(writing, b"caf\xc3")
    os.write(writing, b"\xa9\nlast")
    os.close(writing)
    thread.join()

    assert capsys.readouterr().err == "mine| café\nmine| last\n"
    assert printed.last == "café\nlast".encode()


def test_what_is_printed_in_this_process_goes_to_standard_error(capsys: Shown) -> None:
    before = sys.stdout
    with labelled("outer"):
        print("one")
        with labelled("inner"):
            print("half", end=" ", flush=True)
            print("line")
            sys.stdout.buffer.write(b"bytes\n")
        print("two", end="")

    assert capsys.readouterr() == ("", "outer| one\ninner| half line\ninner| bytes\nouter| two\n")
    assert sys.stdout is before


@pytest.mark.parametrize(
    ("target", "label"),
    [
        ("/home/me/mine.py:Mine", "mine.py:Mine"),
        ("mine.py:Mine", "mine.py:Mine"),
        ("drift", "drift"),
        ("a.b:C", "a.b:C"),
    ],
)
def test_a_label_has_no_folder(target: str, label: str) -> None:
    assert label_of(target) == label
