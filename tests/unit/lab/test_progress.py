import io

from rich.console import Console

from slaternet_lab.games.progress import ProgressDisplay


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def play(seconds_per_round: float, rounds: int | None = 10, note: str = "") -> list[str]:
    """Return the plain lines of ten rounds."""
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(rounds, Console(file=out), clock=clock) as progress:
        for t in range(1, 11):
            progress.update(t, loss=2.0 * t, violation=0.5 * t, note=note)
            clock.now += seconds_per_round
    return out.getvalue().splitlines()


def test_a_short_game_is_one_line_at_its_end() -> None:
    assert play(0.1) == ["round 10/10  10.0 rounds/s  loss 20.0  violation 5.0"]


def test_plain_lines_come_two_seconds_apart_at_most() -> None:
    assert [line.split()[1] for line in play(1.0)] == ["3/10", "5/10", "7/10", "9/10", "10/10"]


def test_a_plain_line_says_speed_scores_and_the_time_that_remains() -> None:
    assert play(1.0)[0] == "round 3/10  1.0 rounds/s  loss 6.0  violation 1.5  ETA 0:00:07"


def test_a_game_without_end_has_no_remaining_time() -> None:
    assert play(1.0, rounds=None)[0] == "round 3  1.0 rounds/s  loss 6.0  violation 1.5"


def test_waiting_for_the_first_round_is_said_and_does_not_count_as_playing() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(10, Console(file=out), clock=clock) as progress:
        for round in (0, 0, 2, 4):
            clock.now += 2.0
            progress.update(round, loss=2.0 * round, violation=0.0, note="" if round else "waiting for the adversary")

    assert out.getvalue().splitlines() == [
        "round 0/10  waiting for the adversary",
        "round 0/10  waiting for the adversary (for 2 s)",
        "round 2/10  loss 4.0  violation 0.0",
        "round 4/10  1.0 rounds/s  loss 8.0  violation 0.0  ETA 0:00:06",
    ]


def test_of_a_slow_round_it_is_said_for_how_long_it_is_played() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(10, Console(file=out), clock=clock) as progress:
        for round, note in ((4, ""), (4, ""), (4, "fixing functions of round 6"), (4, "fixing functions of round 6")):
            clock.now += 3.0
            progress.update(round, loss=8.0, violation=0.0, note=note)

    assert [
        line.removeprefix("round 4/10  loss 8.0  violation 0.0").strip() for line in out.getvalue().splitlines()
    ] == [
        "",
        "playing round 5 (for 3 s)",
        "fixing functions of round 6",
        "fixing functions of round 6 (for 3 s)",
    ]


def test_a_game_that_is_over_is_not_waited_for() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(10, Console(file=out), clock=clock) as progress:
        for _ in range(2):
            clock.now += 3.0
            progress.update(10, loss=8.0, violation=0.0)

    assert out.getvalue().splitlines()[-1] == "round 10/10  loss 8.0  violation 0.0"


def test_a_note_says_what_is_waited_for() -> None:
    assert "waiting for host-2 [agents]" in play(0.1, note="waiting for host-2 [agents]")[-1]


def test_nothing_is_shown_of_a_game_that_never_began() -> None:
    out = io.StringIO()
    with ProgressDisplay(10, Console(file=out)):
        pass

    assert out.getvalue() == ""


def test_a_terminal_shows_the_last_round_with_its_scores() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    with ProgressDisplay(10, console) as progress:
        progress.update(10, loss=20.0, violation=5.0)

    assert "round 10/10" in out.getvalue()
    assert "loss 20.0  violation 5.0" in out.getvalue()


def test_a_terminal_shows_a_game_without_end_too() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    with ProgressDisplay(None, console) as progress:
        progress.update(7, loss=20.0, violation=5.0)

    assert "round 7 " in out.getvalue()


def test_runs_are_counted_with_the_time_that_remains() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(400, Console(file=out, width=100), clock=clock) as progress:
        for second in range(9):
            clock.now = 100.0 + 0.5 * second
            progress.show(50 * second, f"{second // 3}/4 runs", "zhang2024, seed 1")
        progress.show(400, "4/4 runs", "zhang2024, seed 2")

    assert out.getvalue().splitlines() == [
        "1/4 runs  zhang2024, seed 1  ETA 0:00:02",
        "2/4 runs  zhang2024, seed 1",
        "4/4 runs  zhang2024, seed 2",
    ]


def test_neither_kept_runs_nor_the_start_up_count_for_the_time_that_remains() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(1000, Console(file=out, width=100), done=900, clock=clock) as progress:
        progress.show(900, "9/10 runs")
        clock.now += 60.0  # until the workers have started
        progress.show(910, "9/10 runs")
        clock.now += 3.0
        progress.show(940, "9/10 runs")

    assert out.getvalue().splitlines()[-1] == "9/10 runs  ETA 0:00:06"


def test_a_brief_one_is_seen_on_terminals_only() -> None:
    plain, live = io.StringIO(), io.StringIO()
    for console in (Console(file=plain), Console(file=live, force_terminal=True, width=120, color_system=None)):
        with ProgressDisplay(None, console, brief=True) as progress:
            assert list(progress.track("abc", "making [g]_+", 3)) == ["a", "b", "c"]

    assert plain.getvalue() == ""
    assert "making [g]_+" in live.getvalue()
