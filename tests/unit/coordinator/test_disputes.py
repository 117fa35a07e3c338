"""A host can end its own part and never the game; who is accused is judged by the journal, not by the accusation."""

import numpy as np
import pytest
from tests.support.coordinator_games import EVE, N, Play
from tests.support.seating_games import FOUR, LASTING, announced, begun, hold, played, seated, told

from slaternet import tickets
from slaternet.errors import Mismatch, NotYours, RoundNotOpen
from slaternet.limits import LIMITS
from slaternet.model import (
    Accusation,
    Acknowledged,
    Array,
    Dispute,
    DisputedRows,
    Disturbed,
    Failed,
    GameOver,
    Hold,
    Progress,
    RowRequest,
    Seating,
)
from slaternet_coordinator.engine.events import Announce, Dismiss, Effect, JudgeExpired, SetTimer, Tell
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.graphs.fixed import Complete, Ring

AGENTS = np.array([2, 3])
"""Those of b."""
TRUE, FALSE, UNKNOWN = np.zeros((2, 3)), np.ones((2, 3)), np.empty((2, 0))


def playing(policy: Policy = Policy.WAIT, *, reproducible: bool = True) -> Play:
    """Return a game in which every agent mixes the rows of all, 20 rounds of which are scored."""
    return played(begun(policy, graph=Complete(N, 3), reproducible=reproducible), 20)


def dispute(play: Play, accuser: str = "a", rows: Array = FALSE, round: int = 7) -> list[Effect]:
    return play.say(accuser, Dispute(round, "b", AGENTS, rows))


def rulings(effects: list[Effect]) -> list[tuple[str, list[list[float]]]]:
    told = [(each.name, each.body) for each in effects if isinstance(each, Tell)]
    return [(name, body.rows.tolist()) for name, body in told if isinstance(body, DisputedRows)]


def judges(effects: list[Effect]) -> list[str]:
    requests = [each for each in effects if isinstance(each, Tell) and isinstance(each.body, RowRequest)]
    return [each.name for each in requests if isinstance(each.body, RowRequest) and each.body.ticket]


def kinds(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(each.process, each.kind) for each in effects if isinstance(each, Announce)]


# A host that cannot go on


def test_under_wait_a_host_that_fails_is_shut_out_and_its_successor_plays_on() -> None:
    play = playing()

    effects = play.say("b", Failed("the disk is full"))

    assert kinds(effects) == [("b", "failed")]
    assert told(effects, "b", GameOver) == [GameOver("b: the disk is full")]
    assert Dismiss("b", "b: the disk is full") in effects
    assert play.coordinator.view.phase is Phase.PLAYING
    for name in (EVE, "a", "c", "d"):
        [seating] = told(effects, name, Seating)
        assert isinstance(seating, Seating)
        [peer] = [each for each in seating.peers if each.name == "b"]
        assert (peer.address, peer.present, peer.accept) == ("", b"", b"")
    play.close("b")
    assert play.waiting_for.startswith("b, shut out for 0 s")
    with pytest.raises(Mismatch, match=r"b is shut out \(b: the disk is full\); start another process under its name"):
        play.open("b")

    again = play.join("b", LASTING)

    for name in (EVE, "a", "c", "d"):
        [seating] = told(again, name, Seating)
        assert isinstance(seating, Seating)
        [peer] = [each for each in seating.peers if each.name == "b"]
        assert (peer.address, peer.incarnation, len(peer.accept)) == (LASTING.address, 2, 32)
    assert play.open("b")
    assert not any(each.shut_out for each in play.coordinator.status().hosts)


@pytest.mark.parametrize("policy", [Policy.REPLACE, Policy.LEAVE])
def test_under_another_policy_a_host_that_fails_is_lost_at_once(policy: Policy) -> None:
    play = playing(policy)

    effects = play.say("b", Failed("the disk is full"))

    assert kinds(effects) == [("b", "failed"), ("b", "lost")]
    assert [name for name in FOUR if told(effects, name, Hold)] == ["a", "c", "d"]
    assert seated(hold(play, a=21, c=21, d=21)) == {"a": [0, 1, 2, 3], "c": [4, 5], "d": [6, 7]}


def test_a_game_in_which_no_host_is_left_that_can_play_ends() -> None:
    play = playing()
    for name in ("a", "b", "c"):
        play.say(name, Failed("the algorithm raised"))
    assert play.coordinator.view.phase is Phase.PLAYING

    effects = play.say("d", Failed("the algorithm raised"))

    assert play.coordinator.view.phase is Phase.FAILED
    assert all(told(effects, name, GameOver) == [GameOver("d: the algorithm raised")] for name in (EVE, *FOUR))


def test_before_the_game_has_begun_a_host_that_fails_leaves_its_place_to_others() -> None:
    play = Play(hosts=2)
    for name in (EVE, "a", "b"):
        play.come(name)
    assert Dismiss("a", "a: no memory") in play.say("a", Failed("no memory"))
    play.close("a")

    assert play.coordinator.view.phase is Phase.GATHERING
    play.come("c")
    assert play.coordinator.view.missing == "the adversary's plugin"


def test_a_coordinator_that_comes_back_still_shuts_out() -> None:
    play = playing()
    play.say("b", Failed("enough"))
    again = Play(hosts=4)
    again.coordinator.restore(play.kept[-1].saved, bytes(32))
    again.tickets = play.tickets

    with pytest.raises(Mismatch, match="b is shut out"):
        again.open("b")


# Accusations


def test_an_accusation_is_recorded_against_the_accused_and_changes_nothing() -> None:
    play = playing(Policy.LEAVE)
    before = play.coordinator.status()

    effects = play.say("a", Accusation("b", "b refuses its stream: Diverged: two frames differ"))

    assert effects == [Announce("b", "accused", "a says: b refuses its stream: Diverged: two frames differ")]
    assert play.coordinator.status() == before
    assert play.say("a", Accusation("nobody", "x")) == []
    more = [play.say("a", Accusation("b", f"again {number}")) for number in range(2 * LIMITS.complaints)]
    assert sum(map(len, more)) == LIMITS.complaints - 2


# Disputes


def test_a_dispute_asks_the_accused_for_its_rows_and_a_third_to_rebuild_them() -> None:
    play = playing()

    effects = dispute(play)

    assert announced(effects) == ["a disputes rows of agents 2 and 3 in round 7 that b has sent"]
    [asked] = told(effects, "b", RowRequest)
    assert isinstance(asked, RowRequest)
    assert (asked.round, asked.agents.tolist(), asked.ticket) == (7, [2, 3], b"")
    [judge] = told(effects, "c", RowRequest)
    assert isinstance(judge, RowRequest)
    key = tickets.ticket(bytes(32), EVE, 1, "coordinator")
    assert judge.ticket == tickets.recall_ticket(key, "c", 7, AGENTS)
    assert judge.ticket != tickets.recall_ticket(key, "d", 7, AGENTS)
    assert judges(effects) == ["c"]


@pytest.mark.parametrize("accused_first", [True, False])
def test_who_states_other_rows_than_follow_from_the_journal_is_shut_out(accused_first: bool) -> None:
    play = playing()
    dispute(play)
    stated, rebuilt = ("b", FALSE), ("c", TRUE)

    effects = [
        effect
        for name, rows in ((stated, rebuilt) if accused_first else (rebuilt, stated))
        for effect in play.say(name, DisputedRows(7, AGENTS, rows))
    ]

    assert rulings(effects) == [("a", TRUE.tolist())]
    assert kinds(effects) == [("b", "false-rows")]
    assert any(isinstance(each, Dismiss) and each.name == "b" for each in effects)


def test_a_host_that_states_the_rebuilt_rows_is_not_touched_whatever_was_said_of_it() -> None:
    play = playing(Policy.REPLACE)
    for round in range(1, 6):
        dispute(play, round=round)
        effects = play.say("c", DisputedRows(round, AGENTS, TRUE)) + play.say("b", DisputedRows(round, AGENTS, TRUE))
        assert rulings(effects) == [("a", TRUE.tolist())]
        assert kinds(effects) == []

    assert not any(each.lost or each.shut_out for each in play.coordinator.status().hosts)


def test_silence_convicts_nobody_and_the_ruling_does_not_wait_for_it() -> None:
    play = playing(Policy.REPLACE)
    dispute(play)

    assert rulings(play.say("c", DisputedRows(7, AGENTS, TRUE))) == [("a", TRUE.tolist())]
    assert not any(each.lost or each.shut_out for each in play.coordinator.status().hosts)


def test_a_judge_that_cannot_tell_or_goes_or_takes_too_long_is_followed_by_another() -> None:
    play = playing()
    assert judges(dispute(play)) == ["c"]
    assert judges(play.say("c", DisputedRows(7, AGENTS, UNKNOWN))) == ["d"]
    effects = play.close("d")
    assert kinds(effects) == [("b", "disturbed")]
    assert announced(effects) == [
        "no host can tell which rows of agents 2 and 3 in round 7 are right: those that came first are used, and the "
        "game is disturbed"
    ]
    assert rulings(effects) == [("a", [[], []])]
    assert play.kept[-1].saved.disturbed

    play = playing()
    effects = dispute(play)
    [timer] = [each for each in effects if isinstance(each, SetTimer)]
    assert isinstance(timer.event, JudgeExpired)
    assert judges(play.coordinator.handle(timer.event)) == ["d"]
    assert play.coordinator.handle(timer.event) == []  # it was about c


def test_of_several_hosts_that_dispute_the_same_rows_one_judges_where_no_other_is_left() -> None:
    play = playing()
    dispute(play, round=22)
    for name in ("c", "d"):
        assert dispute(play, name, round=22) == []

    assert judges(play.advance(21, EVE)) == ["a"]
    assert judges(play.say("a", DisputedRows(22, AGENTS, UNKNOWN))) == ["c"]
    effects = play.say("c", DisputedRows(22, AGENTS, TRUE))
    assert rulings(effects) == [(name, TRUE.tolist()) for name in ("a", "c", "d")]


def test_who_disputes_again_hears_the_ruling_again_and_others_join_the_case() -> None:
    play = playing()
    dispute(play)
    assert dispute(play) == []
    assert dispute(play, "d") == []

    assert rulings(play.say("c", DisputedRows(7, AGENTS, TRUE))) == [("a", TRUE.tolist()), ("d", TRUE.tolist())]
    assert rulings(dispute(play)) == [("a", TRUE.tolist())]
    play.close("b")
    assert isinstance(play.open("b", have=play.published)[-1], RowRequest)  # it has not stated them


def test_what_a_bystander_or_a_former_judge_says_is_not_heard() -> None:
    play = playing()
    dispute(play)
    assert play.say("d", DisputedRows(7, AGENTS, FALSE)) == []
    play.say("c", DisputedRows(7, AGENTS, UNKNOWN))
    assert play.say("c", DisputedRows(7, AGENTS, FALSE)) == []
    assert rulings(play.say("d", DisputedRows(7, AGENTS, TRUE))) == [("a", TRUE.tolist())]


def test_a_host_that_disputes_too_often_is_told_to_keep_what_came_first() -> None:
    play = playing()
    for round in range(1, LIMITS.complaints + 1):
        assert judges(dispute(play, round=round)) == ["c"]

    play.close("a")
    play.join("a", LASTING)
    play.open("a")

    effects = dispute(play, round=LIMITS.complaints + 1)

    assert rulings(effects) == [("a", [[], []])]
    assert kinds(effects) == [("a", "disturbed")]  # what came first may be false
    assert len(dispute(play, round=LIMITS.complaints + 2)) == 1


def test_only_rows_of_the_host_that_sent_them_are_disputed_and_of_rounds_that_are_open() -> None:
    play = playing()
    for wrong in (Dispute(7, "nobody", AGENTS, FALSE), Dispute(7, "c", AGENTS, FALSE), Dispute(7, "a", AGENTS, FALSE)):
        with pytest.raises(NotYours, match="a host disputes rows of agents that are seated at the host that sent them"):
            play.say("a", wrong)
    with pytest.raises(RoundNotOpen):
        dispute(play, round=10_000)


def test_no_host_learns_by_a_dispute_rows_that_are_not_for_it() -> None:
    play = played(begun(graph=Ring(N, 3)), 20)
    assert judges(play.say("a", Dispute(7, "b", AGENTS[:1], FALSE[:1]))) == ["c"]

    for agents in (AGENTS, AGENTS[1:]):
        with pytest.raises(NotYours, match="a host disputes rows that it is owed"):
            play.say("a", Dispute(7, "b", agents, FALSE[: len(agents)]))
    with pytest.raises(NotYours, match="a host disputes rows that it is owed"):
        play.say("d", Dispute(7, "b", AGENTS[:1], FALSE[:1]))  # it would join the case


def test_a_judge_is_asked_once_the_journal_has_all_that_the_rows_follow_from() -> None:
    play = playing()

    assert judges(dispute(play, round=22)) == []
    assert judges(play.advance(20, EVE)) == []
    assert judges(play.advance(21, EVE)) == ["c"]
    assert judges(play.advance(22, EVE)) == []


@pytest.mark.parametrize("kind", ["together", "reproducible"])
def test_where_agents_are_one_learner_or_hosts_compute_differently_no_host_can_judge(kind: str) -> None:
    together = kind == "together"
    play = played(begun(Policy.REPLACE, together=together, reproducible=together, graph=Complete(N, 3)), 20)

    effects = dispute(play) + play.say("b", DisputedRows(7, AGENTS, TRUE))

    assert rulings(effects) == [("a", [[], []])]
    assert kinds(effects) == [("b", "dispute"), ("b", "disturbed")]
    assert play.coordinator.view.disturbed
    assert not any(each.lost or each.shut_out for each in play.coordinator.status().hosts)


def test_a_new_seating_ends_all_disputes() -> None:
    play = playing(Policy.REPLACE)
    dispute(play)
    play.lose("d")
    hold(play, a=21, b=21, c=21)

    assert play.say("c", DisputedRows(7, AGENTS, TRUE)) == []


# Disturbed games


def test_a_disturbed_game_goes_on_and_says_so() -> None:
    play = playing()

    effects = play.say("a", Disturbed(7, np.array([0, 1])))

    assert kinds(effects) == [("a", "disturbed")]
    assert play.coordinator.status().disturbed
    assert play.coordinator.view.disturbed
    assert play.kept[-1].saved.disturbed
    assert play.say("a", Disturbed(8, np.array([0, 1]))) == []  # of each host once
    assert kinds(play.say("c", Disturbed(8, np.array([4])))) == [("c", "disturbed")]
    assert play.say("a", Progress(21)) is not None
    assert play.say("a", Acknowledged()) == []
