import asyncio
import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from slaternet.errors import Mismatch, Unreachable
from slaternet.model import HostStatus, Incident, Status
from slaternet_lab.status.operator import GameStatus
from slaternet_lab.status.watch import Lines, Objects, Screen, View, poll

PLAYING = Status(3, "playing", 6, 1000, 64, 0.0, 0.0, (HostStatus("agent-1", "h:1", 6, 3, True),))
OVER = replace(PLAYING, phase="over", round=1000)
GONE = Unreachable("h:7000 does not serve us (connection refused); start the process there, or correct the address")


def look(view: View, *answers: Status | Exception) -> Status:
    """Let a coordinator give these answers to whoever looks on; return the one that was the last to be looked at."""
    coming = iter(answers)

    async def ask() -> GameStatus:
        answer = next(coming)
        if isinstance(answer, Exception):
            raise answer
        return GameStatus("run-1", answer)

    with view.context:
        return asyncio.run(poll(ask, view, pause=0.0))


def lines(*answers: Status | Exception) -> list[str]:
    written: list[str] = []
    look(Lines(written.append), *answers)
    return written


@pytest.mark.parametrize("phase", ["over", "failed"])
def test_whoever_watches_sees_a_game_through_to_its_end(phase: str) -> None:
    end = replace(PLAYING, phase=phase)

    assert look(Lines(lambda _: None), PLAYING, replace(PLAYING, phase="stopping"), end, PLAYING) is end


def test_without_a_terminal_there_is_a_line_for_every_change() -> None:
    assert lines(PLAYING, PLAYING, replace(PLAYING, round=9), OVER) == [
        "playing  round 3/1000",
        "playing  round 9/1000",
        "over  round 1000/1000",
    ]


def test_a_coordinator_that_does_not_answer_is_asked_again() -> None:
    assert lines(GONE, GONE, PLAYING, GONE, PLAYING, OVER) == [
        f"no answer: {GONE}",
        "playing  round 3/1000",
        f"no answer: {GONE}",
        "playing  round 3/1000",
        "over  round 1000/1000",
    ]


def test_a_coordinator_that_refuses_is_not_asked_again() -> None:
    with pytest.raises(Mismatch):
        lines(PLAYING, Mismatch("not of this version"), OVER)


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        ("abc", "abc", ""),
        ("abc", "abcd", "d"),
        ("abc", "bcd", "d"),  # the oldest is forgotten
        ("abc", "acb", "b"),  # it has happened again
        ("abc", "bca", "a"),
        ("abc", "de", "de"),
        ("abc", "", ""),
    ],
)
def test_every_trouble_is_told_once(before: str, after: str, news: str) -> None:
    first, second = (
        replace(PLAYING, troubles=tuple(Incident(1.0, what) for what in troubles)) for troubles in (before, after)
    )

    told = lines(first, second, second, OVER)

    words = [each.removeprefix("1 s ago: ") for each in told]
    assert words == [*before, "playing  round 3/1000", *news, "over  round 1000/1000"]


def test_programs_read_an_object_for_every_answer() -> None:
    written: list[str] = []

    look(Objects(written.append), PLAYING, GONE, OVER)

    playing, gone, over = map(json.loads, written)
    assert (playing["run"], playing["round"], over["phase"]) == ("run-1", 3, "over")
    assert gone == {"unreachable": str(GONE)}


def test_a_terminal_shows_the_last_answer_and_since_when_there_is_none() -> None:
    screen = Console(file=StringIO(), force_terminal=True, width=100, height=20, color_system=None)
    clock = iter((0.0, 5.0, 12.0, 13.0)).__next__

    look(Screen(screen, clock), PLAYING, GONE, OVER)

    assert isinstance(screen.file, StringIO)
    drawn = screen.file.getvalue()
    assert "3 of 1000" in drawn
    assert "no answer for 7 s: h:7000 does not serve us" in drawn
    assert drawn.rindex("1000 of 1000") > drawn.rindex("no answer")
