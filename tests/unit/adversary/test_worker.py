"""The worker: one instance per description, a status for every fault, a process that ends when it should."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support import worker_plugins
from tests.support.worker_plugins import SET, Counting, at, game, playing, served, target

from slaternet.codec.plugin import (
    SERVICE,
    DescribeRequest,
    EvaluateReply,
    EvaluateRequest,
    Methods,
    PlayRequest,
    ScoreRequest,
    decode_described,
    decode_evaluated,
    decode_played,
    encode_describe,
    encode_evaluate,
    encode_play,
    encode_score,
    to_json,
)
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet_adversary.plugin.remote import Remote
from slaternet_adversary.plugin.worker import serve

Call = Callable[[str, bytes], bytes]
POINTS = np.zeros((2, 1, 3))


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Call]:
    """Give the calls of a worker that serves `Broken`."""
    with served(Counting(target("Broken")), tmp_path) as address, grpc.insecure_channel(address) as channel:
        yield lambda method, data: channel.unary_unary(f"/{SERVICE}/{method}")(data, timeout=30.0)


def instance(call: Call, how: str = "well") -> str:
    options = to_json({"how": how})
    return decode_described(call("Describe", encode_describe(DescribeRequest(4, 3, 7, SET, options)))).instance


def play(call: Call, name: str, round: int, past: Array | None = None) -> Methods:
    request = PlayRequest(name, round, round, np.empty(0) if past is None else past)
    return decode_played(call("Play", encode_play(request)))


def evaluate(call: Call, name: str, round: int = 1, points: Array = POINTS, **asked: bool) -> EvaluateReply:
    request = EvaluateRequest(name, round, np.array([1, 3]), points, **asked)
    return decode_evaluated(call("Evaluate", encode_evaluate(request)), request, 3, 1)


def refused(work: Callable[[], Any]) -> tuple[str, str]:
    """Return status and details with which a call ends."""
    with pytest.raises(grpc.RpcError) as raised:
        work()
    error: Any = raised.value
    return error.code().name, error.details()


def test_what_a_plugin_returns_is_taken_as_it_is_where_it_has_the_right_shape(broken: Call) -> None:
    for how, value in (("well", 0.0), ("whole", 1.0)):
        name = instance(broken, how)
        assert play(broken, name, 1) == Methods(network=True, quadratic=True)
        f = evaluate(broken, name, values=True).f
        assert f is not None
        assert f.tolist() == [[value], [value]]


@pytest.mark.parametrize(
    ("how", "details"),
    [
        ("shape", "returned the wrong shape: expected (k, s) = (1, 1), got (1, 2)"),
        ("type", "returned str where an array of float64 was due"),
        ("complex", "returned an array of complex128 where an array of float64 was due"),
        ("infinite", "returned inf, which is not finite"),
    ],
)
def test_values_of_a_wrong_kind_are_named(how: str, details: str, broken: Call) -> None:
    name = instance(broken, how)
    play(broken, name, 1)
    status, said = refused(lambda: evaluate(broken, name, values=True))
    assert status == "ABORTED"
    assert said.startswith(f"loss of round 1 for agent 1 {details}, at {worker_plugins.__file__}:")


def test_wrong_forms_and_scores_are_named(broken: Call) -> None:
    name = instance(broken, "score")
    play(broken, name, 1)
    status, details = refused(lambda: evaluate(broken, name, points=POINTS[:, :0], quadratic=True))
    assert status == "ABORTED"
    assert "quadratic of round 1 returned the wrong shape: expected H (p, p) = (3, 3), got (2, 2), at " in details
    request = encode_score(ScoreRequest(name, 1, np.array([0]), np.zeros((5, 3))))
    status, details = refused(lambda: broken("Score", request))
    assert status == "ABORTED"
    assert (
        "network_loss of round 1 for agent 0 returned the wrong shape: expected (N) = (5,), got (2, 2), at" in details
    )


def test_what_a_plugin_raises_is_told_and_traced(broken: Call, capfd: pytest.CaptureFixture[str]) -> None:
    name = instance(broken, "raises")
    play(broken, name, 1)
    status, details = refused(lambda: play(broken, name, 2))
    assert status == "ABORTED"
    raised = r" raised ZeroDivisionError: no denominator, at .*worker_plugins\.py:\d+ `raise .*`; correct its code"
    assert re.fullmatch(f"play of round 2{raised}", details)
    assert 'in play\n    raise ZeroDivisionError("no denominator")' in capfd.readouterr().err
    status, details = refused(lambda: instance(broken, "made"))
    assert status == "ABORTED"
    assert re.fullmatch(f"its constructor{raised}", details)


def test_a_plugin_that_exits_does_not_end_the_worker(broken: Call) -> None:
    name = instance(broken, "exits")
    play(broken, name, 1)
    status, details = refused(lambda: play(broken, name, 2))
    assert status == "ABORTED"
    assert re.match(r"play of round 2 raised SystemExit: 3, at .*worker_plugins\.py:\d+ ", details)
    assert play(broken, instance(broken), 1)


def test_a_game_or_options_that_the_plugin_does_not_take_are_invalid(broken: Call) -> None:
    requests = [
        (DescribeRequest(4, 3, 7, SET, "{}"), "adversary.options.how is missing; Broken needs it"),
        (DescribeRequest(4, 3, 7, SET, '{"hue":1}'), "adversary.options.hue is not an option of Broken"),
        (DescribeRequest(4, 3, 7, '{"kind":"bax"}', "{}"), 'set.kind = "bax" is not known'),
        (DescribeRequest(4, 3, 7, SET, "[]"), "a table is a JSON object"),
        (DescribeRequest(0, 3, 7, SET, "{}"), "a game has at least one agent and one dimension"),
    ]
    for request, details in requests:
        status, said = refused(lambda request=request: broken("Describe", encode_describe(request)))
        assert (status, said[: len(details)]) == ("INVALID_ARGUMENT", details)


def test_a_plugin_outside_the_rules_is_aborted(broken: Call) -> None:
    status, details = refused(lambda: instance(broken, "many"))
    assert status == "ABORTED"
    assert "leaves constraints = 1000000000 where a whole number from 0 to 4096 is due, at" in details
    name = instance(broken, "none")
    status, details = refused(lambda: play(broken, name, 1))
    assert status == "ABORTED"
    assert details.startswith("play of round 1 returned NoneType, which has no methods loss and constraint, at")


def test_rounds_are_played_in_order_and_asked_about_while_they_are_needed(broken: Call) -> None:
    name = instance(broken)
    assert refused(lambda: play(broken, name, 2))[0] == "FAILED_PRECONDITION"
    assert refused(lambda: evaluate(broken, name, values=True))[0] == "FAILED_PRECONDITION"
    play(broken, name, 1)
    assert refused(lambda: play(broken, name, 1))[0] == "FAILED_PRECONDITION"
    evaluate(broken, name, values=True)
    play(broken, name, 2)
    assert refused(lambda: evaluate(broken, name, values=True))[0] == "FAILED_PRECONDITION"


def test_messages_that_are_none_are_refused(broken: Call) -> None:
    name = instance(broken)
    play(broken, name, 1)
    for method in ("Describe", "Play", "Evaluate", "Score"):
        assert refused(lambda method=method: broken(method, b"\xff\xff"))[0] == "INVALID_ARGUMENT"
    assert refused(lambda: evaluate(broken, name, points=np.zeros((2, 1, 5)), values=True))[0] == "INVALID_ARGUMENT"
    beyond = encode_score(ScoreRequest(name, 1, np.array([4]), np.zeros((1, 3))))
    assert refused(lambda: broken("Score", beyond))[0] == "INVALID_ARGUMENT"


def test_an_instance_without_calls_for_an_hour_is_forgotten(tmp_path: Path) -> None:
    worker = Counting(target("Wide"))
    with playing(worker, tmp_path) as remote:
        name = remote._instance
        for _ in range(3):
            worker.now += 0.9 * LIMITS.plugin_idle_seconds
            remote.play(remote._played + 1, None)
        worker.now += 1.1 * LIMITS.plugin_idle_seconds
        with grpc.insecure_channel(f"unix:{tmp_path}/s") as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/Play")
            data = encode_play(PlayRequest(name, 4, 4, np.empty(0)))
            assert refused(lambda: call(data, timeout=30.0))[0] == "NOT_FOUND"


def test_what_is_scored_may_differ_from_what_is_revealed(tmp_path: Path) -> None:
    with playing(Counting(target("Hidden")), tmp_path) as remote:
        functions = remote.play(1, None)
        assert functions.loss(np.array([1]), np.zeros((1, 1, 3))) == 3.0 * (1.0 + 1e-15)
        assert functions.network_loss(np.array([1, 2]), np.zeros((1, 3))) == 1.5


def test_a_plugin_that_cannot_be_loaded_says_so_when_it_is_described(tmp_path: Path) -> None:
    for name, expected, sentence in (
        (f"{tmp_path}/none.py:No", "INVALID_ARGUMENT", "adversary.plugin names the file "),
        (f"{tmp_path}/bad.py:No", "ABORTED", "its import raised ZeroDivisionError: division by zero, at "),
    ):
        (tmp_path / "bad.py").write_text("1 / 0")
        with served(Counting(name), tmp_path) as address, grpc.insecure_channel(address) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/Describe")
            data = encode_describe(DescribeRequest(4, 3, 7, SET, "{}"))
            status, details = refused(lambda call=call, data=data: call(data, timeout=30.0))
        assert status == expected
        assert details.startswith(sentence)


# The process


def start(*arguments: str, stdin: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "slaternet_adversary.plugin.worker", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_what_a_plugin_prints_goes_to_standard_error_and_the_end_of_standard_input_ends_the_worker() -> None:
    with start("--listen", "127.0.0.1:0", target("Broken")) as process:
        assert process.stdout is not None
        ready, address = process.stdout.readline().split()
        assert ready == "ready"
        remote = Remote.connect(at(address), game(), {"how": "well"}, set=SET, deadline=30.0, name="acme")
        remote.play(1, None)
        remote.close()
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out) == (0, "")
    assert "the plugin plays 1" in err


def test_a_worker_without_a_tether_serves_until_it_is_told_to_end() -> None:
    with start("--listen", "127.0.0.1:0", target("Wide"), stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        Remote.connect(at(address), game(), {}, set=SET, deadline=30.0, name="acme").close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_path_that_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="cannot listen on unix:"):
        serve(Counting(target("Wide")), f"unix:{tmp_path}/{'long' * 40}")
