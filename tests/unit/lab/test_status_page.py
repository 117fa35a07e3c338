import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from slaternet.model import HostStatus, Incident, Refusal, Role, Status
from slaternet_lab.status.operator import GameStatus
from slaternet_lab.status.page import as_json, incident_line, line, page

HOSTS = (
    HostStatus("adversary", "h:1", 0, 512, True, Role.ADVERSARY),
    HostStatus("agent-1", "h:2", 4, 527, True, silent=0.2, waits_for=("agent-2",)),
    HostStatus("agent-2", "h:3", 2, 512, True, silent=7.3),
    HostStatus("agent-3", "h:4", 0, 0, True, silent=2.0, spare=True),
)
STATUS = Status(
    512,
    "playing",
    6,
    1000,
    576,
    1.5,
    0.25,
    HOSTS,
    "agent-2, silent for 7 s: agent-1 waits for it",
    rounds_per_second=683.12,
    breaches=(Refusal("OverBudget", "agent-2", 3, "adversary"),),
    troubles=(Incident(312.0, "agent-2 was gone"), Incident(7.2, "agent-2 is silent")),
)
GATHERING = Status(0, "gathering", 6, 0, 0, 0.0, 0.0, HOSTS[:1], "2 of 2 agent hosts")


def shown(status: Status, height: int | None = None, width: int = 80) -> list[list[str]]:
    """Return what stands on the page, line by line and cell by cell."""
    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(page(status, height))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_the_page_holds_all_that_an_operator_asks_for() -> None:
    lines = shown(STATUS)

    for expected in (
        ["phase", "playing (open game)"],
        ["round", "512 of 1000 (graphs published to 576)"],
        ["speed", "683.1 rounds/s"],
        ["waiting for", "agent-2, silent for 7 s: agent-1 waits for it"],
        ["process", "role", "agents", "round", "lag", "heard", "waits for", "address"],
        ["adversary", "adversary", "512", "15", "now", "h:1"],
        ["agent-1", "host", "4", "527", "0", "now", "agent-2", "h:2"],
        ["agent-2", "host", "2", "512", "15", "7 s ago", "h:3"],
        ["agent-3", "spare", "2 s ago", "h:4"],
        ["OverBudget", "agent-2", "adversary", "3"],
        ["5 min ago", "agent-2 was gone"],
        ["7 s ago", "agent-2 is silent"],
    ):
        assert expected in lines


def test_a_game_is_sealed_or_open_and_scores_are_shown_or_said_to_be_the_operators() -> None:
    assert ["loss", "1.50 (cumulative)"] in shown(STATUS)
    withheld = replace(STATUS, sealed=True, cumulative_loss=None, cumulative_violation=None)
    lines = shown(withheld)
    assert ["phase", "playing (sealed game)"] in lines
    for score in ("loss", "violation"):
        assert [score, "for the operator's certificate alone"] in lines
    told = as_json(GameStatus("run-1", withheld))
    assert (told["sealed"], told["scores_withheld"], told["cumulative_loss"]) == (True, True, None)
    assert as_json(GameStatus("run-1", STATUS))["scores_withheld"] is False


def test_the_page_of_a_game_that_has_not_begun_or_has_failed_says_so() -> None:
    assert ["waiting for", "2 of 2 agent hosts"] in shown(GATHERING)
    assert ["speed", "0.0 rounds/s"] not in shown(GATHERING)
    assert ["failure", "agent-1: no more"] in shown(replace(STATUS, phase="failed", failure="agent-1: no more"))


def test_who_is_gone_is_shown_as_gone_and_who_waits_for_many_names_some() -> None:
    waits = replace(
        HOSTS[1], connected=False, silent=26.4, waits_for=tuple(f"agent-{number}" for number in range(2, 9))
    )

    lines = shown(replace(STATUS, hosts=(HOSTS[0], waits)), width=120)

    assert ["agent-1", "host", "4", "527", "0", "gone 26 s", "agent-2, agent-3 and 5 more", "h:2"] in lines
    over = shown(replace(STATUS, phase="over", hosts=(HOSTS[0], replace(waits, waits_for=()))))
    assert ["agent-1", "host", "4", "527", "0", "left", "h:2"] in over
    given_up = shown(replace(STATUS, hosts=(HOSTS[0], replace(waits, seats=0, waits_for=(), lost=True))))
    assert ["agent-1", "host", "lost", "h:2"] in given_up


@pytest.mark.parametrize("height", [20, 24, 30])
def test_a_page_of_a_given_height_shows_the_slowest_and_what_happened_last(height: int) -> None:
    hosts = tuple(HostStatus(f"agent-{number}", "h:1", 1, 500 + number, True) for number in range(1, 41))
    status = replace(STATUS, hosts=hosts, troubles=tuple(Incident(9.0, f"trouble {number}") for number in range(16)))

    lines = shown(status, height)

    names = [line[0] for line in lines if line and line[0].startswith("agent-")]
    assert len(lines) == height - 2  # one is left for a failure, and one for the cursor
    assert names == [f"agent-{number}" for number in range(1, len(names) + 1)]
    assert [f"and {40 - len(names)} more, none of them further behind"] in lines
    assert [line[1] for line in lines if line and line[0] == "9 s ago"] == ["trouble 13", "trouble 14", "trouble 15"]


def test_a_page_that_has_room_for_all_leaves_out_nobody() -> None:
    assert shown(STATUS, height=40) == shown(STATUS)


def test_the_line_says_how_far_and_how_fast_and_who_is_behind() -> None:
    assert line(STATUS) == (
        "playing  round 512/1000  683.1 rounds/s  lag 15 (agent-2)  "
        "waiting for agent-2, silent for 7 s: agent-1 waits for it"
    )
    assert line(GATHERING) == "gathering  round 0  waiting for 2 of 2 agent hosts"


def test_the_json_holds_everything() -> None:
    known = json.loads(json.dumps(as_json(GameStatus("run-1", STATUS))))

    assert (known["run"], known["phase"], known["rounds_per_second"]) == ("run-1", "playing", 683.12)
    assert [each["lag"] for each in known["hosts"]] == [15, 0, 15, None]
    assert known["hosts"][1]["waits_for"] == ["agent-2"]
    assert known["troubles"] == [{"ago": 312.0, "what": "agent-2 was gone"}, {"ago": 7.2, "what": "agent-2 is silent"}]


def test_nothing_from_the_network_steers_the_terminal_or_the_markup() -> None:
    evil = "[red]\x1b]0;mine\x07[/red]\n"
    status = replace(
        STATUS,
        hosts=(replace(HOSTS[1], address=evil),),
        waiting_for=evil,
        troubles=(Incident(1.0, evil),),
    )

    for text in ("\n".join(map(str, shown(status, width=200))), line(status), incident_line(status.troubles[0])):
        assert "[red]?]0;mine?[/red]?" in text
        assert "\x1b" not in text
