"""What a host says and does among a coordinator, an adversary and a peer of a few lines."""

import functools
import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import numpy as np
import pytest
from tests.support.agent_stage import PEER, SPEC, TICKET, P, Stage, head, playing, seated

from slaternet import codec
from slaternet.errors import Mismatch, OutsideSet, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import (
    Answer,
    Dispute,
    DisputedRows,
    Frame,
    HistoryRequest,
    Question,
    RowRequest,
    Values,
    Waiting,
)
from slaternet.spec import Spec
from slaternet.spec.plugins import load
from slaternet_agent.registry import GROUP
from slaternet_agent.shell.stall_report import StallReport

T = TypeVar("T")


def algorithm(folder: Path, method: str) -> Spec:
    """Return the spec with an algorithm of a user's file: the paper's, but for one method."""
    code = "from slaternet_agent.algorithms.zhang2024 import Decision, Zhang2024\n\nclass Mine(Zhang2024):\n"
    path = folder / "mine.py"
    path.write_text(code + "".join(f"    {line}\n" for line in dedent(method).splitlines()))
    return SPEC.replace(**{"algorithm.name": f"{path}:Mine"})


# Hosts that wait


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hosts say sooner that they wait."""
    soon = functools.partial(StallReport, limits=replace(LIMITS, waiting_seconds=0.02))
    monkeypatch.setattr("slaternet_agent.shell.session.StallReport", soon)


@pytest.mark.usefixtures("impatient")
async def test_a_host_says_for_whom_it_waits_until_it_goes_on() -> None:
    async with playing(SPEC) as stage:
        await stage.play(2)
        while (waiting := await stage.waits()).round < 3:
            pass  # a slow machine may have let it wait before
        assert waiting == Waiting(3, ("peer",))

        stage.frame(3)
        await stage.reveal.hear(Question)
        assert await stage.waits() == Waiting(3, ("adversary",))

        stage.answer(3)
        assert await stage.peer.hear(Frame)
        assert await stage.waits() == Waiting(4, ("peer",))


@pytest.mark.usefixtures("impatient")
async def test_a_host_that_waits_says_so_again_on_a_new_stream() -> None:
    async with playing(SPEC) as stage:
        assert await stage.waits() == Waiting(1, ("peer",))
        stage.control.end()

        await stage.attends()
        assert await stage.waits() == Waiting(1, ("peer",))


def test_a_host_that_has_waited_reports_at_once_that_it_goes_on() -> None:
    assert LIMITS.waiting_seconds > LIMITS.report_seconds  # nothing was reported for so long: no report is too soon


# Algorithms that go wrong


@pytest.mark.parametrize("kind", ["ZeroDivisionError", "SystemExit", "Panic"])
async def test_what_an_algorithm_raises_on_an_accepted_stream_fails_the_game_and_is_not_tried_again(
    kind: str, tmp_path: Path
) -> None:
    raising = f"""
    class Panic(BaseException):
        pass

    decided = []

    def decide(self, state, gossip, t):
        self.decided.append(t)
        if t == 5:
            raise {"self." * (kind == "Panic")}{kind}("no more")
        return super().decide(state, gossip, t)
    """
    spec = algorithm(tmp_path, raising)
    async with playing(spec) as stage:
        await stage.play(4)
        stage.frame(5)  # all that was missing: the host decides while it serves the peer's stream
        stage.frame(5)
        failure = await stage.fails()

    assert isinstance(failure, PluginFailed)
    where = f"the algorithm {spec.algorithm.name} failed: decide of round 5"
    sentence = rf"{where} for agent 1 raised {kind}: no more, at "
    assert re.match(sentence, str(failure))
    assert load(GROUP, spec.algorithm.name, key="algorithm.name").factory.decided == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("method", "what"),
    [("__init__(self, game, schedule)", "its constructor"), ("start(self, agents)", "start")],
)
async def test_what_an_algorithm_raises_before_the_first_round_fails_the_game(
    method: str, what: str, tmp_path: Path
) -> None:
    spec = algorithm(tmp_path, f"def {method}:\n    raise ZeroDivisionError('not today')")
    async with seated(spec) as stage:
        failure = await stage.fails()

    assert isinstance(failure, PluginFailed)
    raised = rf"{what}( for agent 1)? raised ZeroDivisionError: not today, at .*\.py:\d+ `raise .*`; correct its code"
    assert re.fullmatch(f"the algorithm {spec.algorithm.name} failed: {raised}", str(failure))


async def test_an_algorithm_that_is_not_the_one_of_the_spec_is_refused_with_both_hashes(tmp_path: Path) -> None:
    spec = algorithm(tmp_path, "pass")
    here = load(GROUP, spec.algorithm.name, key="algorithm.name").sha256
    async with seated(spec.replace(**{"algorithm.sha256": "0123456789abcdef" * 4})) as stage:
        failure = await stage.fails()

    assert isinstance(failure, Mismatch)
    assert f"has SHA-256 {here[:16]} here and 0123456789abcdef in the spec; bring the same file" in str(failure)


# Streams that go wrong


async def test_a_repeated_answer_does_not_erase_the_question_that_is_still_open() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        question = await stage.reveal.hear(Question)
        stage.answer(1)  # to the first question, which was asked again
        stage.reveal.end()

        await stage.reveals()
        again = await stage.reveal.hear(Question)

        assert (again.round, again.x.tobytes(), again.points.tobytes()) == (
            2,
            question.x.tobytes(),
            question.points.tobytes(),
        )
        stage.answer(2)
        assert (await stage.peer.hear(Frame)).round == 3


async def test_a_question_without_answer_is_asked_again_on_every_stream_and_played_once() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        for _ in range(2):
            assert (await stage.reveal.hear(Question)).round == 2
            stage.reveal.end()
            await stage.reveals()
        assert (await stage.reveal.hear(Question)).round == 2
        stage.answer(2)
        stage.answer(2)
        assert (await stage.peer.hear(Frame)).round == 3
        stage.frame(3)
        assert (await stage.reveal.hear(Question)).round == 3


async def test_a_question_that_is_refused_fails_the_game_with_the_refusal() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        await stage.reveal.hear(Question)
        stage.reveal.end(OutsideSet("decisions and points must lie in the feasible set"))
        failure = await stage.fails()

    assert (type(failure), str(failure)) == (OutsideSet, "decisions and points must lie in the feasible set")


async def test_two_copies_of_a_row_that_differ_are_disputed_until_the_coordinator_rules() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2, 0.0)
        stage.answer((await stage.reveal.hear(Question)).round)
        stage.frame(4, 0.0)
        stage.frame(4, 1.0)
        dispute = await disputed(stage)
        stage.control.end()
        await stage.attends()
        again = await disputed(stage)
        stage.frame(3)
        stage.answer((await stage.reveal.hear(Question)).round)
        stage.tell(DisputedRows(4, PEER, np.ones((1, P))), 4)
        question = await stage.reveal.hear(Question)

    for each in (dispute, again):
        assert (each.round, each.host, each.agents.tolist(), each.rows.tolist()) == (4, "peer", [0], [[1.0, 1.0]])
    assert question.round == 4


async def test_a_judge_for_whom_the_algorithm_raises_says_that_it_cannot_tell_and_plays_on(tmp_path: Path) -> None:
    raising = """
        def outgoing(self, state, t):
            if 0 in state.agents:
                raise ZeroDivisionError
            return super().outgoing(state, t)
        """
    async with playing(algorithm(tmp_path, raising)) as stage:
        await stage.play(1)
        stage.tell(RowRequest(2, PEER, TICKET), 2)
        await stage.reveal.hear(HistoryRequest)
        asked = Question(1, PEER, np.zeros((1, P)), np.zeros((1, 2, P)))
        answered = Answer(1, PEER, Values(np.zeros((1, 2)), np.full((1, 2, 1), -1.0)))
        for message in (asked, answered):
            stage.reveal.say(codec.encode_reveal_down(head("adversary", 1), message))
        said = await heard(stage, DisputedRows)
        stage.reveal.end()
        await stage.reveals()
        await stage.play(2, first=2)

    assert (said.round, said.agents.tolist(), said.rows.shape) == (2, [0], (1, 0))


async def disputed(stage: Stage) -> Dispute:
    """Return the dispute that the coordinator hears of."""
    return await heard(stage, Dispute)


async def heard(stage: Stage, kind: type[T]) -> T:
    """Return the next message of a kind that the coordinator hears, whatever else it hears."""
    while not isinstance(said := await stage.control.hear(object), kind):
        pass
    return said
