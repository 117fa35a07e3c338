"""Processes come back into the middle of a game, and the marks that let them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.coordinator_games import EVE, EVE_JOIN, EVERYONE, HOST_JOIN, HOSTS, Play

from slaternet.errors import Diverged, Mismatch, NotSeated, NotYours, RoundNotOpen, Superseded
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Checkpointed,
    Description,
    Finished,
    GameOver,
    Hold,
    Holding,
    Join,
    LowWater,
    Progress,
    Role,
    Seating,
    StopAt,
    Topology,
    Waiting,
)
from slaternet_coordinator.engine.events import Admit, Announce, Joined, Keep, Leave, Opened, Said, Tell
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.saved import SavedGame

C, L = LIMITS.checkpoint_every, LIMITS.window
LASTING = replace(HOST_JOIN, durable=True)
LASTING_EVE = replace(EVE_JOIN, durable=True)


def lasting(rounds: int | None = None, *, hosts: tuple[Join, ...] = (LASTING, LASTING)) -> Play:
    """Begin a game whose adversary can come back, and whose hosts join like this."""
    play = Play(rounds)
    play.join(EVE, LASTING_EVE)
    play.open(EVE)
    for name, join in zip(HOSTS, hosts, strict=True):
        play.come(name, join)
    play.say(EVE, Description(2))
    return play


def played(play: Play, round: int, checkpoint: int = 0) -> Play:
    """Let everyone come to a round, as far as the topology lets them, and hosts write their checkpoints."""
    while play.coordinator.view.scored < round:
        furthest = min(round, play.published)
        for name in HOSTS:
            for mark in range(C, min(furthest, checkpoint) + 1, C):
                play.say(name, Checkpointed(mark))
        play.advance(furthest)
    return play


# The low-water mark


@given(
    steps=st.lists(st.tuples(st.sampled_from(EVERYONE), st.integers(1, 80), st.booleans()), max_size=60),
    lasts=st.tuples(st.booleans(), st.booleans()),
    window=st.sampled_from([4, 16, 64]),
    every=st.sampled_from([1, 8, 64]),
)
@settings(max_examples=80, deadline=None)
def test_nothing_is_published_from_which_someone_could_not_come_back(
    steps: list[tuple[str, int, bool]], lasts: tuple[bool, bool], window: int, every: int
) -> None:
    play = Play(None, replace(LIMITS, window=window, checkpoint_every=every))
    play.come(EVE)
    for name, durable in zip(HOSTS, lasts, strict=True):
        play.come(name, replace(HOST_JOIN, durable=durable))
    play.say(EVE, Description(2))
    durable = dict(zip(HOSTS, lasts, strict=True))
    done, marks, before = dict.fromkeys(EVERYONE, 0), dict.fromkeys(HOSTS, 0), 0

    for name, step, checkpoint in steps:
        done[name] = min(done[name] + step, play.published)
        play.say(name, Progress(done[name]))
        if name != EVE and checkpoint and done[name] >= every:
            marks[name] = done[name] - done[name] % every
            play.say(name, Checkpointed(marks[name]))

        mark = play.coordinator.view.low_water
        assert before <= mark <= min(marks[host] if durable[host] else done[host] for host in HOSTS)
        assert not any(lasts) or mark % every == 0
        assert play.published <= min(min(done.values()), mark + 2 * every) + window
        assert [keep.saved.low_water for keep in play.kept][-1] == mark  # before anyone heard of it
        assert play.told[EVE][-1] == LowWater(mark)
        assert max(each.low_water for host in HOSTS for each in play.topologies(host)) == mark
        before = mark


def test_a_game_waits_two_checkpoints_and_a_window_beyond_the_mark_and_goes_on_with_the_checkpoint() -> None:
    play = lasting()
    for _ in range(20):
        play.advance(play.published)
    assert play.published == 2 * C + L

    assert play.say("a", Checkpointed(2 * C)) == []
    told = play.say("b", Checkpointed(C))

    assert play.coordinator.view.low_water == C
    assert play.published == 3 * C + L
    assert Tell(EVE, LowWater(C)) in told
    keep = play.kept[-1]
    assert (keep.saved.low_water, keep.saved.published) == (C, 3 * C + L)
    assert {entry.name: entry.mark for entry in keep.saved.members} == {EVE: 0, "a": 2 * C, "b": C}


@given(rounds=st.lists(st.integers(1, 30), min_size=1, max_size=20))
@settings(max_examples=20, deadline=None)
def test_what_is_told_of_topology_and_mark_was_kept_before(rounds: list[int]) -> None:
    play, done, kept = lasting(), 0, SavedGame()
    for step in rounds:
        done = min(done + step, play.published)
        said = [Said(name, Checkpointed(done - done % C)) for name in HOSTS if done >= C]
        for event in [*said, *(Said(name, Progress(done)) for name in EVERYONE)]:
            for effect in play.coordinator.handle(event):
                match effect:
                    case Keep(memory):
                        kept = memory
                    case Tell(_, Topology(round=first, rounds=count, low_water=mark)):
                        assert first + count - 1 <= kept.published
                        assert mark <= kept.low_water
                    case Tell(_, LowWater(mark)):
                        assert mark <= kept.low_water
    assert kept == SavedGame() or kept.published == play.published


def test_a_coordinator_whose_memory_is_older_than_what_it_has_told_goes_no_further() -> None:
    play = lasting()
    play.coordinator.restore(replace(play.kept[-1].saved, published=L - 1), bytes(32))

    with pytest.raises(Diverged, match=rf"a holds the topology up to round {L} .* none after round {L - 1}: its state"):
        play.open("a", L)
    assert play.open("a", L - 1)


def test_beside_hosts_without_checkpoints_the_mark_is_a_round_that_the_others_have_one_of() -> None:
    play = lasting(hosts=(LASTING, HOST_JOIN))
    play.advance(L)
    play.say("a", Checkpointed(C))

    play.advance(C + 20, "b", EVE)
    play.advance(C + 40, "a")

    assert (play.coordinator.view.low_water, play.published) == (C, C + 20 + L)


def test_a_checkpoint_says_that_its_round_is_finished() -> None:
    play = lasting()
    played(play, 50)
    play.say("a", Waiting(60, ("b",)))

    play.say("a", Checkpointed(C))

    assert [host.round for host in play.coordinator.status().hosts] == [50, C, 50]
    assert play.coordinator.status().hosts[1].waits_for == ()


def test_only_hosts_that_play_have_checkpoints_and_only_of_rounds_that_are_published() -> None:
    play = lasting()
    play.come("c")

    with pytest.raises(RoundNotOpen):
        play.say("a", Checkpointed(play.published + 1))
    with pytest.raises(NotYours, match="only hosts"):
        play.say(EVE, Checkpointed(1))
    with pytest.raises(NotSeated):
        play.say("c", Checkpointed(1))
    assert play.register["a"].mark == 0


# Coming back


def test_a_host_that_comes_back_keeps_its_seats_and_is_announced_to_all() -> None:
    play = played(lasting(), 3 * C, checkpoint=2 * C)
    mark, published = play.coordinator.view.low_water, play.published
    assert mark == 2 * C
    play.say("a", Holding(1))
    play.close("a")
    older = play.tickets["a"]
    play.told.clear()

    play.join("a", replace(LASTING, address="elsewhere:9"))

    assert play.coordinator.view.epoch == 1
    assert {each.name: each.incarnation for each in play.kept[-1].saved.members} == {EVE: 1, "a": 2, "b": 1}
    for name in (EVE, "b"):
        (seating,) = play.told[name]
        assert isinstance(seating, Seating)
        again = next(peer for peer in seating.peers if peer.name == "a")
        assert (again.address, again.incarnation, again.seats.tolist()) == ("elsewhere:9", 2, [0, 1, 2, 3])
        assert again.accept == play.register.ticket(play.register["a"], name)
    with pytest.raises(Superseded):
        play.coordinator.handle(Opened("a", older))
    seating, *rest = play.open("a", have=mark)
    assert isinstance(seating, Seating)
    assert seating.seats.tolist() == [0, 1, 2, 3]
    assert [type(body) for body in rest] == [Topology] * len(rest)
    first, last = rest[0], rest[-1]
    assert isinstance(first, Topology)
    assert isinstance(last, Topology)
    assert (first.round, last.round + last.rounds - 1) == (mark + 1, published)
    member = play.register["a"]
    assert (member.round, member.mark, member.holding, member.finished) == (mark, 2 * C, None, False)
    assert member in play.register.players


def test_the_mark_never_falls_and_the_game_waits_for_who_is_back() -> None:
    play = played(lasting(), 3 * C, checkpoint=2 * C)
    published = play.published
    play.close("a")
    play.come("a", LASTING)

    play.advance(published, "b", EVE)
    assert play.published == published
    play.say("a", Progress(2 * C + 5))
    assert (play.coordinator.view.low_water, play.published) == (2 * C, published)
    for name in HOSTS:
        play.say(name, Checkpointed(3 * C))
    play.advance(published, "a")

    assert play.coordinator.view.low_water == 3 * C
    assert play.published > published


def test_the_mark_does_not_overtake_a_host_that_plays_again_what_it_had_checkpoints_of() -> None:
    play = played(lasting(), C, checkpoint=C)
    assert (play.coordinator.view.low_water, play.published) == (C, 2 * C)
    play.say("a", Checkpointed(2 * C))
    play.close("a")
    play.come("a", LASTING)

    play.say("b", Checkpointed(2 * C))
    play.say(EVE, Progress(2 * C))
    play.say("a", Progress(2 * C - L // 2))
    assert play.published > 2 * C
    assert play.coordinator.view.low_water == C

    play.say("a", Checkpointed(2 * C))
    assert play.coordinator.view.low_water == 2 * C


def test_nobody_may_forget_what_one_that_is_back_has_yet_to_ask_for_again() -> None:
    play = played(lasting(), 3 * C, checkpoint=2 * C)
    play.say("a", Checkpointed(3 * C))
    play.close("a")
    play.come("a", LASTING)

    play.say("b", Checkpointed(3 * C))
    play.advance(play.published)
    assert play.coordinator.view.low_water == 2 * C  # its checkpoint of an older life does not count
    play.say("a", Checkpointed(3 * C))
    play.advance(play.published)

    assert play.coordinator.view.low_water == 3 * C


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("name", ["a", EVE])
def test_who_has_kept_nothing_cannot_come_back(name: str, before: bool) -> None:
    play = Play()
    for each in EVERYONE:
        play.join(each, replace(EVE_JOIN if each == EVE else HOST_JOIN, durable=before))
        play.open(each)
    play.say(EVE, Description(2))
    role = Role.ADVERSARY if name == EVE else Role.HOST

    with pytest.raises(Mismatch, match=f"{name} has its part in a game .*, and has kept nothing .* --state DIR"):
        play.coordinator.handle(Joined(name, replace(LASTING, role=role, durable=not before)))

    assert play.register[name].incarnation == 1


def test_an_adversary_comes_back_with_the_plugin_it_had() -> None:
    play = played(lasting(), C, checkpoint=C)
    play.close(EVE)
    play.join(EVE, replace(LASTING_EVE, address="elsewhere:9"))
    (seating,) = play.told["a"][-1:]
    assert isinstance(seating, Seating)
    assert seating.adversary is not None
    assert (seating.adversary.address, seating.adversary.incarnation) == ("elsewhere:9", 2)
    assert seating.description == Description(2)
    assert isinstance(play.open(EVE)[0], Seating)

    with pytest.raises(Mismatch, match=r"another plugin: it was .*constraints=2.* now .*constraints=3"):
        play.say(EVE, Description(3))
    assert play.say(EVE, Description(2)) == []
    assert play.coordinator.view.scored == C
    assert play.coordinator.view.phase is Phase.PLAYING


def test_an_adversary_comes_back_with_mended_code_and_learns_with_which_the_game_was_begun() -> None:
    play = lasting()
    play.close(EVE)
    play.join(EVE, replace(LASTING_EVE, address="elsewhere:9"))
    play.open(EVE)

    kept, announced = play.coordinator.handle(Said(EVE, Description(2, code="beef" * 16), stale=False))

    assert isinstance(kept, Keep)
    assert kept.saved.description == Description(2, code="beef" * 16)
    assert isinstance(announced, Announce)
    assert (announced.process, announced.kind) == (EVE, "amended")
    assert play.say(EVE, Description(2, code="beef" * 16)) == []
    admitted = [each for each in play.coordinator.handle(Joined(EVE, LASTING_EVE)) if isinstance(each, Admit)]
    assert [each.description for each in admitted] == [Description(2, code="beef" * 16)]
    with pytest.raises(Mismatch, match="another plugin"):
        play.say(EVE, Description(2, history=1, code="beef" * 16))


def test_who_comes_back_while_the_game_stops_hears_so_and_counts_for_all_it_may_have_entered() -> None:
    play = played(lasting(), 10)
    published = play.published
    play.stop()
    play.say("a", Holding(12))
    play.close("a")

    assert play.come("a", LASTING)[-1] == Hold()
    play.say("b", Holding(12))
    assert play.coordinator.view.last is None
    play.say("a", Holding(0))

    assert play.coordinator.view.last == published
    play.come("b", LASTING)
    assert play.told["b"][-1] == StopAt(published)


def test_who_has_come_back_must_finish_again() -> None:
    play = lasting(rounds=5)
    play.advance(5)
    play.say("a", Finished())
    play.close("a")
    play.come("a", LASTING)
    for name in ("b", EVE):
        assert play.say(name, Finished()) == []

    assert play.say("a", Finished()) == [Tell(name, GameOver()) for name in EVERYONE]


def test_who_died_before_it_could_write_down_that_the_game_is_over_is_told_again() -> None:
    play = Play(rounds=5).begin()
    for name in EVERYONE:
        play.say(name, Finished())
    for name in ("b", EVE):
        play.say(name, Acknowledged())
    play.close("a")

    assert play.come("a")[-1] == GameOver()
    assert play.say("a", Acknowledged()) == [Leave()]
    assert all(each.acknowledged for each in play.kept[-1].saved.members)
    effects = play.join("b")
    assert isinstance(effects[0], Admit)
    assert play.say("a", Acknowledged()) == []  # the one that is back is waited for
