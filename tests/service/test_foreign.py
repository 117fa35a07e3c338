"""The adversary in JavaScript: a process of Node that the game meets on the wire only."""

import hashlib
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.services import digest, playing, reference, small_spec
from tests.support.worker_plugins import at
from typer.testing import CliRunner

from slaternet.codec.plugin import (
    SERVICE,
    DescribeReply,
    DescribeRequest,
    EvaluateReply,
    EvaluateRequest,
    Methods,
    PlayRequest,
    ScoreReply,
    ScoreRequest,
    decode_described,
    decode_evaluated,
    decode_played,
    decode_scored,
    encode_describe,
    encode_evaluate,
    encode_play,
    encode_score,
)
from slaternet.model import Agents, Array
from slaternet.numerics.sets import Box
from slaternet_adversary.api import Game
from slaternet_adversary.plugin.remote import Remote
from slaternet_lab.cli import app

EXAMPLE = Path(__file__).parents[2] / "adversary" / "examples" / "node"
DEADLINE = 20.0
SEED = (1 << 64) - 1  # no double holds it
AGENTS, DIMENSION = 5, 3
BUDGET = 0.75


@contextmanager
def example() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the example on a free port; give the process and its address."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (EXAMPLE / "node_modules" / "@grpc" / "grpc-js").is_dir():
        pytest.skip("the packages of the example are not installed; `make test` installs them where it finds npm")
    command = [node, str(EXAMPLE / "server.js"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = re.fullmatch(r"listening on grpc://(127\.0\.0\.1:\d+)\n", process.stdout.readline())
            assert said is not None
            yield process, said[1]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with example() as (_, where):
        yield where


class Client:
    """A game's side of the wire, as bare as it can be."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def call(self, method: str, request: bytes) -> bytes:
        reply: bytes = self._channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=DEADLINE)
        return reply

    def describe(self, options: str = "{}", *, probe: bool = False) -> DescribeReply:
        request = DescribeRequest(AGENTS, DIMENSION, SEED, '{"kind":"box","lower":-5.0,"upper":5.0}', options, probe)
        return decode_described(self.call("Describe", encode_describe(request)))

    def play(self, instance: str, round: int, *, needed: int = 1) -> Methods:
        request = PlayRequest(instance, round, needed, np.empty((0, AGENTS, DIMENSION)))
        return decode_played(self.call("Play", encode_play(request)))

    def evaluate(self, instance: str, round: int, agents: Agents, points: Array) -> EvaluateReply:
        asked = EvaluateRequest(instance, round, agents, points, True, True, True, True, True)
        return decode_evaluated(self.call("Evaluate", encode_evaluate(asked)), asked, DIMENSION, 1)

    def score(self, instance: str, round: int, agents: Agents, points: Array) -> ScoreReply:
        request = encode_score(ScoreRequest(instance, round, agents, points))
        return decode_scored(self.call("Score", request), len(points))


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with grpc.insecure_channel(address) as channel:
        yield Client(channel)


def numbers(agents: Agents, round: int) -> tuple[Array, Array]:
    """Return centres and prices (k, p) as the example's formulas say, w_t for a period of 8 rounds."""
    wave = {1: 0.5, 2: 1.0, 3: 0.5, 5: -0.5}[round]
    drawn = []
    for agent in agents:
        data = hashlib.shake_256(f"{SEED} {agent} {round}".encode()).digest(12 * DIMENSION)
        drawn.append([int.from_bytes(data[at : at + 6], "little") / 2**48 for at in range(0, len(data), 6)])
    uniform = np.array(drawn)
    return 1.0 + 0.5 * wave + 2.0 * uniform[:, :DIMENSION] - 1.0, 0.5 + uniform[:, DIMENSION:]


@pytest.mark.parametrize("round", [1, 2, 3, 5])
def test_what_it_answers_follows_its_formulas(client: Client, round: int) -> None:
    instance = client.describe(f'{{"budget":{BUDGET},"period":8}}').instance
    for each in range(1, round + 1):
        client.play(instance, each)
    agents = np.array([0, 3, 4])
    points = np.random.default_rng(round).uniform(-2.0, 2.0, (3, 2, DIMENSION))

    answer = client.evaluate(instance, round, agents, points)

    centres, prices = numbers(agents, round)
    away = points - centres[:, None]
    assert answer.f == pytest.approx(0.5 * (away * away).sum(axis=-1), rel=1e-12)
    assert answer.g == pytest.approx((points @ prices[:, :, None]) - BUDGET, rel=1e-12)
    assert answer.loss_gradient == pytest.approx(away, rel=1e-12)
    assert answer.constraint_gradient == pytest.approx(np.stack([prices, prices], axis=1)[:, :, None], rel=1e-12)


def test_averages_and_stacks_agree_with_the_functions_they_are_made_of(client: Client) -> None:
    instance = client.describe().instance
    client.play(instance, 1)
    agents, points = np.array([1, 2, 4]), np.random.default_rng(7).uniform(-2.0, 2.0, (4, DIMENSION))

    answer = client.evaluate(instance, 1, agents, np.broadcast_to(points, (3, 4, DIMENSION)))
    scored = client.score(instance, 1, agents, points)

    assert answer.f is not None
    assert answer.g is not None
    assert answer.quadratic is not None
    assert answer.linear is not None
    hessian, slope, constant = answer.quadratic
    matrix, offset = answer.linear
    excess = np.maximum(answer.g[:, :, 0], 0.0)
    assert scored.loss == pytest.approx(answer.f.mean(axis=0), rel=1e-12)
    assert scored.violation == pytest.approx(np.sqrt((excess * excess).sum(axis=0)), rel=1e-12)
    assert 0.5 * ((points @ hessian) * points).sum(axis=1) + points @ slope + constant == pytest.approx(scored.loss)
    assert points @ matrix.T - offset == pytest.approx(answer.g[:, :, 0].T)


def test_a_new_instance_has_the_same_functions_to_the_bit(client: Client) -> None:
    agents, points = np.arange(AGENTS), np.ones((AGENTS, 1, DIMENSION))
    first, second = client.describe(), client.describe()
    assert first.instance != second.instance
    assert first.version == second.version

    answers = []
    for instance in (first.instance, second.instance):
        client.play(instance, 1)
        client.play(instance, 2)
        answers.append(client.evaluate(instance, 2, agents, points))

    assert answers[0].f is not None
    assert answers[1].f is not None
    assert answers[0].f.tobytes() == answers[1].f.tobytes()


def test_it_says_what_its_rounds_offer_where_that_is_asked(client: Client) -> None:
    everything = Methods(True, True, True, True, True)
    described = client.describe(probe=True)

    assert described.methods == client.play(described.instance, 1) == everything
    assert client.describe().methods is None
    assert (described.constraints, described.history, described.rowwise) == (1, 0, True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            '{"rows":4}',
            "adversary.options.rows is not an option of Bowls; it takes target, drift, period, noise, budget",
        ),
        ('{"budget":0}', "adversary.options.budget must be a number above 0, not 0"),
        ('{"noise":"loud"}', 'adversary.options.noise must be a number, not "loud"'),
    ],
)
def test_an_option_that_it_cannot_play_is_an_invalid_argument(client: Client, options: str, sentence: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.describe(options)

    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, sentence)


def test_an_instance_that_is_not_known_is_not_found(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.play("nobody", 1)

    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_round_that_is_not_needed_any_more_is_forgotten(client: Client) -> None:
    instance = client.describe().instance
    client.play(instance, 1)
    client.play(instance, 2, needed=2)
    agents, points = np.arange(1), np.zeros((1, 1, DIMENSION))

    client.evaluate(instance, 2, agents, points)
    with pytest.raises(grpc.RpcError) as refused:
        client.evaluate(instance, 1, agents, points)

    assert refused.value.code() is grpc.StatusCode.INTERNAL


def test_a_game_goes_on_when_its_instance_was_forgotten(client: Client, address: str) -> None:
    game = Game(AGENTS, DIMENSION, SEED, Box(DIMENSION, -5.0, 5.0))
    agents, points = np.arange(AGENTS), np.ones((AGENTS, 1, DIMENSION))
    with closing(Remote.connect(at(address), game, {}, set="{}", name="bowls")) as plugin:
        functions = plugin.play(1, None)
        gradient = functions.loss_gradient(agents, points)
        for _ in range(64):  # as many as it keeps
            client.describe()

        assert functions.loss_gradient(agents, points).tobytes() == gradient.tobytes()


def test_it_ends_in_order_when_it_is_told_to() -> None:
    with example() as (process, address), grpc.insecure_channel(address) as channel:
        Client(channel).describe()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0


def test_it_passes_the_exam(address: str) -> None:
    result = CliRunner().invoke(app, ["adversary-check", f"grpc://{address}", "--json"])

    assert result.exit_code == 0, result.output
    verdicts = {line["about"]: line["verdict"] for line in json.loads(result.stdout)}
    for line in ("re-creation", "rowwise", "convex f", "loss_gradient", "network_violation", "quadratic", "linear"):
        assert verdicts[line] == "ok"


async def test_it_is_played_to_the_same_bits_on_any_number_of_hosts(address: str, tmp_path: Path) -> None:
    spec = small_spec(f"adversary.plugin=grpc://{address}", "adversary.options={budget = 2.0}", rounds=30)
    expected = reference(spec, tmp_path / "simulated")

    digests = []
    for hosts in (1, 2):
        async with playing(spec, tmp_path / f"on-{hosts}", hosts=hosts) as game:
            digests.append(digest(await game.over()))

    assert digests == [expected, expected]
    assert reference(spec, tmp_path / "again") == expected
