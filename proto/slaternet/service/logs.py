"""The log of a process: one line per event on standard error, for people or for programs."""

import contextlib
import logging
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from slaternet.errors import BadSpec
from slaternet.texts import cleaned_lines, printable

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("console", "json")

_FIRST = ("timestamp", "level", "event", "host", "run", "round")
_SHORT = 8
"""Digits of a run's id in the log for people."""

_facts: dict[str, Callable[[], object]] = {}
_format = "console"


def annotate(**facts: Callable[[], object]) -> None:
    """Add facts to every line from now on: each function is called when a line is written; empty results are left out.

    Context variables would not work: gRPC runs handlers in a context that was copied before the run had an id.
    """
    _facts.update(facts)


def configure_log(level: str = "info", format: str = "console") -> None:
    """Log to standard error: time, level, event, key=value; or, with `json`, one object per line.

    Warnings and errors of other libraries are logged in the same form.
    """
    if level not in LEVELS:
        raise BadSpec(f"--log-level {level} is no level; choose from {', '.join(LEVELS)}")
    if format not in FORMATS:
        raise BadSpec(f"--log-format {format} is no format; choose from {', '.join(FORMATS)}")
    global _format
    _format = format
    before, render = _for_programs() if format == "json" else _for_people()
    structlog.configure(
        processors=[structlog.processors.add_log_level, *before, *render],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        # one write per line: several processes may share a file, and several threads a process
        logger_factory=error_logger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, *before],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(LEVELS[level], logging.WARNING), force=True)
    logging.captureWarnings(format == "json")
    sys.excepthook = _crash if format == "json" else sys.__excepthook__


class _Stderr:
    """Standard error; what it has no room for is dropped: no process ends because of its log."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            (sys.stderr or sys.stdout).write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            (sys.stderr or sys.stdout).flush()


def error_logger(*_: object) -> structlog.WriteLogger:
    """Return a logger that writes to standard error."""
    return structlog.WriteLogger(cast("TextIO", _Stderr()))


def print_final_error(program: str, sentence: str, code: int, trace: str = "") -> None:
    """Print or log why a program is about to exit with `code`; below it the traceback of a plugin's error, if any."""
    if _format == "json":
        structlog.get_logger().error(sentence, exit_code=code, **({"exception": trace} if trace else {}))
    else:
        with contextlib.suppress(OSError):
            print(f"{program}: {printable(sentence)}", *cleaned_lines(trace).splitlines(), sep="\n", file=sys.stderr)


def _for_people() -> tuple[list[Processor], list[Processor]]:
    # a plain traceback: a rich one shows local variables, and with them tickets
    render: list[Processor] = [
        structlog.processors.format_exc_info,
        _tame,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback),
    ]
    return [structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False), _add_facts, _shorten], render


def _for_programs() -> tuple[list[Processor], list[Processor]]:
    render: list[Processor] = [
        structlog.processors.format_exc_info,
        _tame,
        _in_order,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
    return [structlog.processors.TimeStamper(fmt="iso", utc=True), _add_facts], render


def _add_facts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, ask in _facts.items():
        if key not in event and (fact := ask()):
            event[key] = fact
    return event


def _shorten(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if "run" in event:
        event["run"] = event["run"][:_SHORT]
    return event


def _tame(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make every text harmless; of a traceback every line."""
    trace = event.pop("exception", None)
    tamed = {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}
    return tamed if trace is None else {**tamed, "exception": "\n".join(map(printable, trace.split("\n")))}


def _in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: event.pop(key) for key in _FIRST if key in event} | dict(event)


def _crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    structlog.get_logger().critical("crashed", exc_info=(kind, error, trace))
