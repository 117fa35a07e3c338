"""An adversary in another process is the same adversary, and nothing it answers can do harm."""

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from structlog.testing import capture_logs
from tests.support.worker_plugins import SET, Counting, Plain, Walk, at, game, playing, served, target

from slaternet.codec.faults import DETAILS, encode_status
from slaternet.codec.plugin import (
    SERVICE,
    DescribeReply,
    EvaluateReply,
    Methods,
    ScoreReply,
    encode_described,
    encode_evaluated,
    encode_played,
    encode_scored,
)
from slaternet.errors import Diverged, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.plugin_faults import CodeLine, PluginFault
from slaternet_adversary import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.builtin.moving_target import MovingTarget
from slaternet_adversary.plugin.calls import Served
from slaternet_adversary.plugin.remote import Remote
from slaternet_adversary.plugin.slow_calls import report_slow_calls
from slaternet_adversary.scoring import Scoring

OPTIONAL = {"loss_gradient", "constraint_gradient", "network_loss", "network_violation", "quadratic", "linear"}
RANDOM = np.random.default_rng(5)
Handler = Callable[[bytes, grpc.ServicerContext], bytes]


def same(one: object, other: object) -> bool:
    """Say whether two arrays have the same shape and bits."""
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def decisions(rounds: int, of: Game) -> Array:
    drawn = RANDOM.standard_normal((rounds, of.agents, of.dimension))
    drawn[1, 0] = np.nan  # it has left
    return drawn


def past(x: Array, round: int) -> History:
    return History(x[max(0, round - 3) : round - 1])


@pytest.mark.parametrize("kind", [LinearRegression, MovingTarget])
def test_every_number_of_a_built_in_is_the_same_to_the_bit(kind: type[Adversary], tmp_path: Path) -> None:
    name = {LinearRegression: "linear-regression", MovingTarget: "moving-target"}[kind]
    here = kind(game(), b=0.5)
    agents, points = np.array([0, 2, 3]), RANDOM.standard_normal((3, 2, 3))

    with playing(Counting(name), tmp_path, b=0.5) as there:
        assert (there.constraints, there.history, there.rowwise) == (here.constraints, 0, True)
        for round in (1, 2, 3):
            one, other = here.play(round, None), there.play(round, None)
            for method in ("loss", "constraint", "loss_gradient", "constraint_gradient"):
                assert same(getattr(one, method)(agents, points), getattr(other, method)(agents, points)), method
            for method in ("network_loss", "network_violation"):
                assert same(getattr(one, method)(agents, points[0]), getattr(other, method)(agents, points[0]))
            for method in ("quadratic", "linear"):
                pairs = zip(getattr(one, method)(agents), getattr(other, method)(agents), strict=True)
                assert all(same(*pair) for pair in pairs)


def test_a_plugin_without_optional_methods_offers_scores_alone(tmp_path: Path) -> None:
    of, x = game(), decisions(4, game())
    here = Plain(of, pull=0.25)

    with playing(Counting(target("Plain")), tmp_path, pull=0.25) as there:
        for round in (1, 2, 3, 4):
            one, other = here.play(round, past(x, round)), there.play(round, past(x, round))
            assert {name for name in OPTIONAL if hasattr(other, name)} == {"network_loss", "network_violation"}
            at = np.nan_to_num(x[round - 1])
            scores = [Scoring(each, round, at, np.zeros(3), 2).step() for each in (one, other)]
            assert scores[0] == scores[1]


def test_a_plugin_that_is_not_rowwise_is_asked_about_one_agent_at_a_time_in_one_call(tmp_path: Path) -> None:
    worker, points = Counting(target("Plain")), RANDOM.standard_normal((4, 2, 3))
    alone: Walk = Plain(game()).play(1, past(points, 1))

    with playing(worker, tmp_path) as there:
        values = there.play(1, past(points, 1)).loss(np.arange(4), points)

    assert there.rowwise
    assert same(values, np.concatenate([alone.loss(np.array([i]), points[i : i + 1]) for i in range(4)]))
    assert not same(values, alone.loss(np.arange(4), points))
    assert worker.calls == ["Describe", "Play", "Evaluate"]


def test_loss_and_constraint_of_the_same_points_are_one_call(tmp_path: Path) -> None:
    worker, points = Counting(target("Wide")), RANDOM.standard_normal((4, 2, 3))
    with playing(worker, tmp_path) as there:
        functions = there.play(1, None)
        for method in (functions.loss, functions.constraint):  # one agent after the other, as the runtime may ask
            for agent in range(4):
                method(np.array([agent]), points[agent : agent + 1])

    assert worker.calls.count("Evaluate") == 4


def test_loss_and_violation_of_the_same_points_are_one_call_also_piece_by_piece(tmp_path: Path) -> None:
    worker, points = Counting("linear-regression"), RANDOM.standard_normal((6, 3))
    functions = LinearRegression(game()).play(1)
    with playing(worker, tmp_path) as there:
        other = there.play(1, None)
        loss = other.network_loss(np.arange(4), points)
        pieces = [other.network_violation(np.arange(4), piece) for piece in (points[:4], points[4:])]

    assert worker.calls.count("Score") == 1
    assert same(loss, functions.network_loss(np.arange(4), points))
    assert same(np.concatenate(pieces), functions.network_violation(np.arange(4), points))


def test_what_is_more_than_a_call_carries_is_cut(tmp_path: Path) -> None:
    worker, of = Counting(target("Wide")), game(40, 5000)
    points = RANDOM.standard_normal((40, 2, 5000))
    calls = math.ceil(points.nbytes / LIMITS.plugin_call_bytes)
    assert calls > 1

    with playing(worker, tmp_path, of) as there:
        functions = there.play(1, None)
        f, g = functions.loss(np.arange(40), points), functions.constraint(np.arange(40), points)
        scored = functions.network_loss(np.array([0, 2]), points.reshape(80, 5000))

    assert same(f, points[..., 0] + np.arange(40)[:, None])
    assert same(g, np.repeat(points[..., :1], 2, axis=-1))
    assert np.allclose(scored, points[..., 0].ravel() + 1.0)
    assert worker.calls == ["Describe", "Play", *["Evaluate"] * calls, *["Score"] * calls]


def test_an_instance_that_was_forgotten_is_made_again_and_replayed(tmp_path: Path) -> None:
    worker, x = Counting(target("Plain")), decisions(5, game())
    here, points = Plain(game()), RANDOM.standard_normal((1, 2, 3))
    with playing(worker, tmp_path) as there:
        rounds = [(here.play(t, past(x, t)), there.play(t, past(x, t))) for t in (1, 2, 3, 4)]
        for one, other in [*rounds, (here.play(5, past(x, 5)), None)]:
            worker.now += 1.0 + LIMITS.plugin_idle_seconds
            other = other or there.play(5, past(x, 5))
            assert same(one.loss(np.array([2]), points), other.loss(np.array([2]), points))

    assert worker.calls.count("Describe") == 6


def test_of_every_so_many_rounds_an_answer_is_asked_for_again_and_of_the_newest(tmp_path: Path) -> None:
    worker, rounds = Counting(target("Wide")), 5 * LIMITS.reasked_rounds
    points = RANDOM.standard_normal((4, 2, 3))
    with playing(worker, tmp_path) as there:
        for round in range(1, rounds + 1):
            there.play(round, None).loss(np.arange(4), points)
        del worker.calls[:], worker.asked[:]
        worker.now += 1.0 + LIMITS.plugin_idle_seconds
        functions = there.play(rounds + 1, None)
        functions.loss(np.arange(4), points)

    assert worker.calls.count("Play") == rounds + 2  # once in vain
    *again, new = worker.asked
    assert new == rounds + 1
    assert again[-1] == rounds
    assert LIMITS.reasked_rounds / 2 <= len(again) <= LIMITS.reasked_rounds + 1
    assert np.ptp(np.diff(again)[:-1]) == 0


def test_a_plugin_that_answers_otherwise_when_it_is_played_again_is_named_with_round_and_agent(tmp_path: Path) -> None:
    worker, points = Counting(target("Moody")), RANDOM.standard_normal((4, 2, 3))
    contradicts = pytest.raises(Diverged, match=r"^the adversary plugin acme is not reproducible.* agent 2 in round 3 ")
    with playing(worker, tmp_path) as there:
        for round in (1, 2, 3):
            there.play(round, None).loss(np.arange(4), points)
        worker.now += 1.0 + LIMITS.plugin_idle_seconds
        with contradicts:
            there.play(4, None)


@pytest.mark.parametrize(("plugin", "method"), [("Moody", "loss"), ("Steep", "loss_gradient")])
def test_every_question_of_a_round_is_asked_again_whatever_agents_and_methods_it_is_about(
    plugin: str, method: str, tmp_path: Path
) -> None:
    worker, points = Counting(target(plugin)), RANDOM.standard_normal((4, 1, 3))
    contradicts = pytest.raises(Diverged, match="another value for agent 2 in round 3 ")
    with playing(worker, tmp_path) as there:
        for round in (1, 2, 3):
            functions = there.play(round, None)
            for agent in range(4):  # one host after the other
                functions.constraint(np.array([agent]), points[:1])
                getattr(functions, method)(np.array([agent]), points[:1])
        worker.now += 1.0 + LIMITS.plugin_idle_seconds
        with contradicts:
            there.play(4, None)


def test_rounds_that_nobody_holds_are_not_needed(tmp_path: Path) -> None:
    worker = Counting(target("Wide"))
    with playing(worker, tmp_path) as there:
        held = [there.play(round, None) for round in (1, 2, 3)]
        del held[:2]
        held.append(there.play(4, None))
        held.clear()
        there.play(5, None)

    assert worker.needed == [1, 1, 1, 3, 5]


def test_what_the_plugin_says_of_itself_is_known(tmp_path: Path) -> None:
    with served(Counting(target("Plain")), tmp_path) as address:
        probed = Remote.connect(at(address), game(), {}, set=SET, deadline=30.0, probe=True, name="acme")
        assert probed.methods == Methods(network=True)
        assert len(probed.version) == 64
        with pytest.raises(CannotPlay, match=r"options\.pull must lie between 0 and 1, not 2"):
            Remote.connect(at(address), game(), {"pull": 2.0}, set=SET, deadline=30.0, name="acme")
        probed.close()
        with pytest.raises(PluginFailed, match="Play of round 1 came after the connection was closed"):
            probed.play(1, past(decisions(2, game()), 1))


# Plugins that answer anything


@contextlib.contextmanager
def foreign(folder: Path, **replies: bytes | Handler) -> Iterator[str]:
    """Serve fixed replies, or handlers; gives the address."""

    def handler(reply: bytes | Handler) -> Any:
        return grpc.unary_unary_rpc_method_handler(reply if callable(reply) else lambda _data, _context: reply)

    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
    handlers = {name: handler(reply) for name, reply in {**HONEST, **replies}.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"unix:{folder}/f")
    server.start()
    try:
        yield f"unix:{folder}/f"
    finally:
        server.stop(0).wait()


def ends(code: grpc.StatusCode, details: str) -> Handler:
    return lambda _data, context: context.abort(code, details)


@contextlib.contextmanager
def against(folder: Path, deadline: float = 30.0, **replies: bytes | Handler) -> Iterator[Remote]:
    """Give an instance of a plugin with these replies."""
    with foreign(folder, **replies) as address, contextlib.closing(connect(address, deadline)) as remote:
        yield remote


def connect(address: str, deadline: float = 30.0) -> Remote:
    return Remote.connect(at(address), game(), {}, set=SET, deadline=deadline, name="acme")


def ask(remote: Remote, method: str) -> None:
    function = getattr(remote.play(1, None), method)
    if method in ("quadratic", "linear"):
        function(np.arange(4))
    else:
        function(np.arange(4), np.zeros((4, 3) if "network" in method else (4, 2, 3)))


HONEST: dict[str, bytes | Handler] = {
    "Describe": encode_described(DescribeReply("a", 2, rowwise=True)),
    "Play": encode_played(Methods(True, True, True, True, True)),
    "Evaluate": encode_evaluated(EvaluateReply(np.zeros((4, 2)), np.zeros((4, 2, 2)))),
}
SHORT = encode_evaluated(
    EvaluateReply(
        np.zeros((4, 1)),
        np.zeros((4, 2, 2)),
        np.zeros((4, 2, 2)),
        np.zeros((4, 2, 2, 4)),
        (np.zeros((2, 2)), np.zeros(2), 1.0),
        (np.zeros((9, 3)), np.zeros(9)),
    )
)


@pytest.mark.parametrize("method", ["loss", "loss_gradient", "constraint_gradient", "quadratic", "linear"])
@pytest.mark.parametrize("reply", [SHORT, b"", b"\xff\xff", bytes(200)], ids=["short", "empty", "garbage", "zeros"])
def test_an_answer_of_another_size_is_a_failure_of_the_plugin(method: str, reply: bytes, tmp_path: Path) -> None:
    wrong = pytest.raises(PluginFailed, match=r"acme failed: Evaluate of round 1 .*has answered wrongly: ")
    with against(tmp_path, Evaluate=reply) as remote, wrong:
        ask(remote, method)


def test_scores_of_another_number_are_a_failure_of_the_plugin(tmp_path: Path) -> None:
    reply = encode_scored(ScoreReply(np.zeros(4), np.zeros(3)))
    wrong = pytest.raises(
        PluginFailed,
        match=r"acme failed: Score of round 1 .*: violation .* \(N\) = \(4,\) in .*, 32 bytes; got 24 bytes",
    )
    with against(tmp_path, Score=reply) as remote, wrong:
        ask(remote, "network_violation")


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xff",
        encode_described(DescribeReply("a" * 65, 2)),
        encode_described(DescribeReply("a", LIMITS.constraints + 1)),
        encode_described(DescribeReply("a", 2, history=2**32 - 1)),
        encode_described(DescribeReply("a", 2, version="newest")),
    ],
    ids=["empty", "garbage", "name", "constraints", "history", "version"],
)
def test_a_description_beyond_the_limits_is_a_failure_of_the_plugin(reply: bytes, tmp_path: Path) -> None:
    with foreign(tmp_path, Describe=reply) as address, pytest.raises(PluginFailed, match="plugin acme failed"):
        connect(address)


def test_an_answer_above_the_message_limit_is_not_taken_in(tmp_path: Path) -> None:
    huge = bytes(LIMITS.plugin_message_bytes + 1)
    refused = pytest.raises(PluginFailed, match=r"Play of round 1 failed: .*larger than max")
    with against(tmp_path, Play=huge) as remote, refused:
        remote.play(1, None)


def test_every_status_says_what_has_happened_where(tmp_path: Path) -> None:
    with against(tmp_path, Evaluate=ends(grpc.StatusCode.ABORTED, "ValueError:\n  odd")) as remote:
        said = r"^the adversary plugin acme failed: Evaluate of round 1 for agents .* failed: ValueError: odd; "
        with pytest.raises(PluginFailed, match=said):
            ask(remote, "loss")
        with pytest.raises(PluginFailed, match="Score of round 1 failed: Method not found"):
            ask(remote, "network_loss")
    unsupported = ends(grpc.StatusCode.INVALID_ARGUMENT, "play with at least 9 agents")
    with (
        foreign(tmp_path, Describe=unsupported) as address,
        pytest.raises(CannotPlay, match=r"^play with .* 9 agents$"),
    ):
        connect(address)
    with pytest.raises(PluginFailed, match=f"plugin acme failed: Describe found no one at unix:{tmp_path}/nobody"):
        connect(f"unix:{tmp_path}/nobody")


def test_the_fault_in_the_details_of_a_status_is_told_and_completed(tmp_path: Path) -> None:
    fault = PluginFault(error="std::out_of_range", message="map::at", frames=(CodeLine("drones.cpp", 31, "price", ""),))

    def fail(_data: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((DETAILS, encode_status(10, "odd", fault)),))
        return context.abort(grpc.StatusCode.ABORTED, "odd")

    with against(tmp_path, Evaluate=fail) as remote, pytest.raises(PluginFailed) as failed:
        ask(remote, "loss")

    assert failed.value.fault == replace(fault, method="Evaluate", round=1, agents=(0, 1, 2, 3), asked=4)
    sentence = (
        "Evaluate of round 1 for agents 0, 1, 2, 3 raised std::out_of_range: map::at, at drones.cpp:31; correct its"
    )
    assert str(failed.value) == f"the adversary plugin acme failed: {sentence} code"


def test_an_instance_that_is_never_known_ends_in_a_failure(tmp_path: Path) -> None:
    unknown = pytest.raises(PluginFailed, match="does not know the instance")
    with against(tmp_path, Play=ends(grpc.StatusCode.NOT_FOUND, "who?")) as remote, unknown:
        remote.play(1, None)


def test_a_plugin_that_becomes_another_when_it_is_described_again_fails(tmp_path: Path) -> None:
    described = iter([DescribeReply("a", 2), DescribeReply("b", 3)])
    changed = pytest.raises(PluginFailed, match="Describe gives another plugin than before")
    replies = {
        "Describe": lambda _data, _context: encode_described(next(described)),
        "Play": ends(grpc.StatusCode.NOT_FOUND, "who?"),
    }
    with against(tmp_path, **replies) as remote, changed:
        remote.play(1, None)


async def test_a_call_that_lasts_is_reported_while_it_does(tmp_path: Path) -> None:
    with capture_logs() as logs:

        def hang(_data: bytes, _context: grpc.ServicerContext) -> bytes:
            while len(logs) < 3:
                threading.Event().wait(0.01)  # the next look; nothing depends on its length
            return encode_played(Methods())

        with against(tmp_path, Play=hang) as remote:
            watching = asyncio.create_task(report_slow_calls(remote, first=0.001, look=0.001))
            await asyncio.to_thread(remote.play, 1, None)
            watching.cancel()

    assert {(each["event"], each["call"], each["round"]) for each in logs} == {
        ("the plugin has not answered yet", "Play", "1")
    }
    assert remote.calling is None


def test_a_server_that_is_gone_is_dialled_again_and_the_plugin_played_again_there(tmp_path: Path) -> None:
    points = RANDOM.standard_normal((4, 2, 3))
    with capture_logs() as logs, contextlib.ExitStack() as stack:
        with served(Counting(target("Wide")), tmp_path) as address:
            remote = Remote.connect(Served(lambda: address, patience=60.0), game(), {}, set=SET, name="acme")
            stack.callback(remote.close)
            before = remote.play(1, None).loss(np.arange(4), points)
        with ThreadPoolExecutor(1) as threads:
            second = threads.submit(remote.play, 2, None)
            while not any("dialling" in each["event"] for each in logs):
                threading.Event().wait(0.01)  # the next look; nothing depends on its length
            worker = Counting(target("Wide"))
            stack.enter_context(served(worker, tmp_path))
            assert same(second.result(30.0).loss(np.arange(4), points), before)

    assert worker.calls == ["Describe", "Play", "Evaluate", "Play", "Evaluate"]
    dialling = [each for each in logs if "dialling" in each["event"]]
    assert len(dialling) == 1
    assert address in dialling[0]["reason"]


def test_a_server_that_stays_away_longer_than_the_patience_fails_the_plugin(tmp_path: Path) -> None:
    away = pytest.raises(PluginFailed, match=r"found no one at unix:.*; it was dialled again for 0\.2 seconds$")
    with contextlib.ExitStack() as stack:
        with served(Counting(target("Wide")), tmp_path) as address:
            remote = Remote.connect(Served(lambda: address, patience=0.2), game(), {}, set=SET, name="acme")
            stack.callback(remote.close)
        with away:
            remote.play(1, None)


def test_a_game_that_is_left_while_its_server_is_dialled_ends_at_once(tmp_path: Path) -> None:
    with served(Counting(target("Wide")), tmp_path) as address:
        remote = Remote.connect(Served(lambda: address, patience=3600.0), game(), {}, set=SET, name="acme")
    with capture_logs() as logs, ThreadPoolExecutor(1) as threads:
        playing = threads.submit(remote.play, 1, None)
        while not any("dialling" in each["event"] for each in logs):
            threading.Event().wait(0.01)  # the next look; nothing depends on its length
        remote.close()
        with pytest.raises(PluginFailed, match="acme failed: Describe"):
            playing.result(30.0)


def test_a_plugin_that_does_not_answer_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    released = threading.Event()

    def hang(_data: bytes, _context: grpc.ServicerContext) -> bytes:
        released.wait(30.0)
        return b""

    late = pytest.raises(PluginFailed, match=r"Play of round 1 has not answered within 0\.3 seconds")
    with against(tmp_path, 0.3, Play=hang) as remote:
        with late:
            remote.play(1, None)
        released.set()
