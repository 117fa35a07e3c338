import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import structlog

from slaternet.errors import BadSpec
from slaternet.service import logs
from slaternet.service.logs import annotate, configure_log, print_final_error

RUN = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def own_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the log of the tests as it was."""
    monkeypatch.setattr(logs, "_facts", {})
    monkeypatch.setattr(logs, "_format", "console")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


class Log:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def lines(self) -> list[str]:
        return self._capsys.readouterr().err.splitlines()

    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Log:
    return Log(capsys)


def test_people_read_one_plain_line_an_event(log: Log) -> None:
    configure_log()

    structlog.get_logger().info("listening", address="127.0.0.1:7000")
    structlog.get_logger().debug("not worth a line")

    (line,) = log.lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[info +\] listening +address=127.0.0.1:7000", line)


def test_what_others_say_steers_no_terminal_and_passes_for_no_line_of_ours(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_log()

    structlog.get_logger().warning(
        "a\x1b[2J\nb", address="\x1b]0;x\x07:1", reason="no\n[info] the game is over", count=3
    )
    print_final_error("slaternet", "the game failed: a: \x1b[31mwell\n", 3)

    told, last = log.lines()
    assert told.endswith("a?[2J?b                        address=?]0;x?:1 count=3 reason='no?[info] the game is over'")
    assert last == "slaternet: the game failed: a: ?[31mwell?"


@pytest.mark.parametrize("format", logs.FORMATS)
def test_a_traceback_steers_no_terminal_either(log: Log, format: str) -> None:
    configure_log(format=format)

    try:
        raise ArithmeticError("\x1b[2J\x9b31m\u202ewell\r")
    except ArithmeticError:
        structlog.get_logger().exception("a plugin failed", reason="\x9b\u202e")

    lines = log.lines()
    assert all(line.isprintable() for line in lines)
    assert "ArithmeticError: ?[2J?31m?well?" in lines[-1]
    assert (len(lines) > 1) is (format == "console")


def test_programs_read_one_object_an_event(log: Log) -> None:
    configure_log(format="json")

    structlog.get_logger().warning("waiting", **{"for": "agent-2, agent-3"})

    (event,) = log.objects()
    stamp = str(event.pop("timestamp"))
    assert event == {"event": "waiting", "level": "warning", "for": "agent-2, agent-3"}
    assert stamp.endswith("Z")
    assert datetime.fromisoformat(stamp) <= datetime.now(UTC)


@pytest.mark.parametrize("format", logs.FORMATS)
def test_facts_stand_on_every_line_as_they_are_then_and_empty_ones_on_none(log: Log, format: str) -> None:
    played = {"run": "", "round": 0}
    annotate(host=lambda: "agent-1", run=lambda: played["run"], round=lambda: played["round"])
    configure_log(format=format)

    structlog.get_logger().info("waiting for the coordinator")
    played |= {"run": RUN, "round": 7}
    structlog.get_logger().info("going on")
    structlog.get_logger().info("going on", round=9)

    first, second, third = log.lines()
    if format == "json":
        keys = ["timestamp", "level", "event", "host"]
        assert list(json.loads(first)) == keys
        assert list(json.loads(second)) == [*keys, "run", "round"]
        assert (json.loads(second)["run"], json.loads(second)["round"], json.loads(third)["round"]) == (RUN, 7, 9)
    else:
        assert re.search(r"the coordinator +host=agent-1$", first)
        assert re.search(r"going on +host=agent-1 round=7 run=01234567$", second)
        assert re.search(r" round=9 ", third)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_a_level_leaves_out_what_lies_below_it(log: Log, level: str, said: list[str]) -> None:
    configure_log(level, "json")

    for each in logs.LEVELS:
        getattr(structlog.get_logger(), each)("ours")
        getattr(logging.getLogger("theirs"), each)("a library's")

    events = log.objects()
    assert [each["level"] for each in events if each["event"] == "ours"] == said
    # libraries are never heard below a warning
    assert [each["level"] for each in events if each["event"] == "a library's"] == said[-2:]


@pytest.mark.parametrize(("level", "format"), [("loud", "console"), ("INFO", "json"), ("info", "xml")])
def test_a_wrong_option_is_one_sentence_that_names_the_right_ones(level: str, format: str) -> None:
    with pytest.raises(BadSpec, match=r"^--log-(level|format) \w+ is no \w+; choose from (debug, info|console, json)"):
        configure_log(level, format)


def test_what_libraries_and_python_itself_say_are_objects_too(log: Log) -> None:
    configure_log(format="json")
    annotate(host=lambda: "agent-1")

    logging.getLogger("asyncio").error("%s was never retrieved", "a result")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("this is old", DeprecationWarning, stacklevel=1)

    first, second = log.objects()
    assert (first["event"], first["logger"], first["host"]) == ("a result was never retrieved", "asyncio", "agent-1")
    assert "DeprecationWarning: this is old" in str(second["event"])


def test_an_exception_is_told_without_the_values_of_variables(log: Log) -> None:
    configure_log(format="json")
    ticket = "4ac1" * 16

    try:
        raise ZeroDivisionError(f"{len(ticket)} by nothing")
    except ZeroDivisionError:
        structlog.get_logger().exception("a handler failed")
        logging.getLogger("asyncio").exception("a task failed")
        assert sys.exc_info()[0] is not None
        sys.excepthook(*sys.exc_info())

    events = log.objects()
    assert [each["event"] for each in events] == ["a handler failed", "a task failed", "crashed"]
    for each in events:
        assert "ZeroDivisionError: 64 by nothing" in str(each["exception"])
        assert ticket not in str(each)


def test_the_final_error_is_a_sentence_or_an_object(log: Log) -> None:
    print_final_error("slaternet agent", "the seats are taken", 4)
    assert log.lines() == ["slaternet agent: the seats are taken"]

    configure_log(format="json")
    print_final_error("slaternet agent", "the seats are taken", 4)
    (event,) = log.objects()
    assert (event["event"], event["level"], event["exit_code"]) == ("the seats are taken", "error", 4)
