import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.spec.seat_request import parse


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_is_an_even_share(text: str) -> None:
    wish = parse(text)
    assert (wish.count, wish.agents.size) == (0, 0)


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("12", 12), (" 12 ", 12), (str(LIMITS.agents), LIMITS.agents)])
def test_a_number_is_a_count(text: str, count: int) -> None:
    wish = parse(text)
    assert (wish.count, wish.agents.size) == (count, 0)


@pytest.mark.parametrize(
    ("text", "agents"),
    [
        ("0-11", list(range(12))),
        ("3,7,9", [3, 7, 9]),
        ("9, 3 ,7", [3, 7, 9]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("8,0-3", [0, 1, 2, 3, 8]),
        ("3-3", [3]),
        ("0-0", [0]),
    ],
)
def test_ranges_and_lists_are_agents_by_their_ids(text: str, agents: list[int]) -> None:
    wish = parse(text)
    assert (wish.count, wish.agents.tolist()) == (len(agents), agents)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0", "--seats 0 seats nobody; leave it out for an even share, or say 0-0 for agent 0 alone"),
        ("65537", "--seats 65537 is more than the 65536 agents that a game may have; lower it"),
        ("9" * 5000, "--seats 99999999999999999999 is more than the 65536 agents"),
        ("3-1", "--seats 3-1 holds 3-1, which runs backwards; write 1-3"),
        ("1,2,1", "--seats 1,2,1 names agent 1 twice; name every agent once"),
        ("0-3,2", "--seats 0-3,2 names agent 2 twice"),
        ("0-65536", "--seats 0-65536 names agent 65536, but a game has at most 65536; lower it"),
        ("all", "--seats all is neither a number of agents (12) nor agents by their ids (0-11 or 3,7,9); correct it"),
        ("-3", "--seats -3 is neither"),
        ("1,,2", "--seats 1,,2 is neither"),
        ("1,", "--seats 1, is neither"),
        ("1.5", "--seats 1.5 is neither"),
        ("²", "--seats ² is neither"),
        ("0-9999999999", "--seats 0-9999999999 is neither"),
    ],
)
def test_what_can_mean_nothing_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadSpec) as refusal:
        parse(text)

    assert str(refusal.value).startswith(sentence)


@given(st.text(alphabet="0123456789-, x", max_size=12))
def test_whatever_is_written_is_understood_or_refused(text: str) -> None:
    try:
        wish = parse(text)
    except BadSpec:
        return
    assert wish.agents.size in (0, wish.count)
    assert wish.agents.tolist() == sorted(set(wish.agents.tolist()))
