from io import StringIO

from rich.console import Console

from slaternet_lab.workers.tally import Tally


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_elsewhere_than_on_a_terminal_a_line_comes_every_two_seconds_and_at_the_end() -> None:
    clock, console = Clock(), Console(file=StringIO(), width=100)
    with Tally(4, 400, console, clock) as tally:
        for second in range(9):
            clock.now = 100.0 + 0.5 * second
            tally.update(second // 3, 50 * second, "zhang2024, seed 1")
        tally.update(4, 400, "zhang2024, seed 2")
        tally.update(4, 400, "offline optima")

    assert lines(console) == [
        "1/4 runs  ETA 0:00:02  zhang2024, seed 1",
        "2/4 runs  zhang2024, seed 1",
        "4/4 runs  zhang2024, seed 2",
    ]


def test_neither_kept_runs_nor_the_start_up_count_for_the_time_that_remains() -> None:
    clock, console = Clock(), Console(file=StringIO(), width=100)
    with Tally(10, 1000, console, clock) as tally:
        tally.update(9, 900)
        clock.now += 60.0  # until the workers have started
        tally.update(9, 910)
        clock.now += 3.0
        tally.update(9, 940)

    assert lines(console)[-1] == "9/10 runs  ETA 0:00:06"


def test_a_terminal_has_one_live_line() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=True)
    with Tally(4, 400, console) as tally:
        tally.update(1, 150, "yi2023, seed 2")

    assert "1/4 runs" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "yi2023, seed 2" in console.file.getvalue()  # type: ignore[attr-defined]
