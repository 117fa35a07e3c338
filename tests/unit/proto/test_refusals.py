import pytest

from slaternet import codec, errors
from slaternet.errors import AlreadyAsked, Damaged, Diverged, Malformed, OverBudget, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Head, Refusal, Refusals
from slaternet.refusals import KINDS, RefusalCounter, is_refusal
from slaternet.v1 import coordinator_pb2 as pb

HEAD = Head("run", 1, 0, "adversary")


def test_breaches_are_counted_by_kind_and_host() -> None:
    breaches, told = RefusalCounter(), []
    breaches.watch(lambda: told.append(breaches.all))
    assert (breaches.all, breaches.by_kind) == ((), {})

    for error, host in (
        (OverBudget("a"), "b"),
        (AlreadyAsked("b"), "b"),
        (OverBudget("c"), "a"),
        (OverBudget("d"), "b"),
    ):
        breaches.count(error, host)

    assert breaches.all == (
        Refusal("AlreadyAsked", "b", 1),
        Refusal("OverBudget", "a", 1),
        Refusal("OverBudget", "b", 2),
    )
    assert breaches.by_kind == {"AlreadyAsked": 1, "OverBudget": 3}
    assert told[0] == (Refusal("OverBudget", "b", 1),)
    assert told[-1] == breaches.all


def test_however_many_hosts_break_the_rules_a_report_of_it_fits_and_nothing_goes_uncounted() -> None:
    breaches = RefusalCounter()
    for number in range(LIMITS.hosts):
        for kind in (OverBudget, AlreadyAsked, Malformed):
            breaches.count(kind("too much"), f"agent-{number}-{'x' * 50}")

    assert len(breaches.all) <= LIMITS.breaches
    assert breaches.by_kind == dict.fromkeys(("AlreadyAsked", "Malformed", "OverBudget"), LIMITS.hosts)
    data = codec.encode_control_up(HEAD, Refusals(breaches.all))
    assert codec.decode_control_up(data) == (HEAD, Refusals(breaches.all))


@pytest.mark.parametrize(
    ("kind", "breach"),
    [
        (errors.Malformed, True),
        (errors.NotYours, True),
        (errors.RoundNotOpen, True),
        (errors.Forgotten, True),
        (errors.Diverged, True),
        (errors.Replaced, False),
        (errors.NotSeated, False),
        (errors.Unreachable, False),
        (errors.PluginFailed, False),
    ],
)
def test_who_comes_too_early_or_again_breaks_no_rule(kind: type[SlaternetError], breach: bool) -> None:
    assert is_refusal(kind("so")) is breach
    assert (kind.__name__ in KINDS) is breach


@pytest.mark.parametrize(
    "breaches",
    [
        [pb.Breach(kind="Replaced", host="agent-1", count=1)],
        [pb.Breach(kind="the loss is 0.25", host="agent-1", count=1)],
        [pb.Breach(kind="Malformed", host="Agent 1", count=1)],
        [pb.Breach(kind="Malformed", host="agent-1")],
        [pb.Breach(kind="Malformed", host="agent-1", count=1, server="no name")],
        [pb.Breach(kind="Malformed", host="agent-1", count=1)] * (LIMITS.breaches + 1),
    ],
)
def test_a_report_that_could_not_be_true_is_refused(breaches: list[pb.Breach]) -> None:
    data = codec.encode_control_up(HEAD, Refusals(()))
    message = pb.ControlUp.FromString(data)
    message.refusals.breaches.extend(breaches)

    with pytest.raises(Malformed):
        codec.decode_control_up(message.SerializeToString())


def test_a_damaged_file_of_ours_is_no_fault_of_a_caller() -> None:
    assert is_refusal(Diverged("two frames differ"))
    assert not is_refusal(Damaged("the journal is damaged"))
