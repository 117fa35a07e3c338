import pytest
from structlog.testing import capture_logs

from slaternet.errors import Malformed, Mismatch, OverBudget
from slaternet.limits import LIMITS
from slaternet.model import DISTURBED, Incident, IncidentRecord, Refusal
from slaternet.refusals import RefusalCounter
from slaternet_coordinator.shell.monitor import Observations, Pace


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def observations(clock: Clock) -> Observations:
    return watching(clock, RefusalCounter())


def watching(clock: Clock, refusals: RefusalCounter) -> Observations:
    """Return observations of a game in round 7, at a time that stands still."""
    return Observations(clock, refusals, now=lambda: 1e9, round=lambda: 7)


def test_the_pace_is_that_of_the_last_seconds() -> None:
    pace = Pace(spacing=0.1)
    assert pace.rate(0.0) == 0.0

    for step in range(101):
        pace.advance(step / 10, step * 20)
    assert pace.rate(10.0) == pytest.approx(200)

    for step in range(101, 200):
        pace.advance(step / 10, 2000 + step)
    assert pace.rate(19.9) == pytest.approx(10)


def test_a_game_that_stands_still_has_no_pace() -> None:
    pace = Pace(spacing=0.1)
    pace.advance(1.0, 10)
    assert pace.rate(1.0) == 0.0
    pace.advance(2.0, 30)

    assert pace.rate(2.0) == pytest.approx(20)
    assert pace.rate(5.0) == pytest.approx(5)
    assert pace.rate(60.0) == 0.0
    pace.advance(61.0, 35)
    assert pace.rate(62.0) == 0.0  # how long these five rounds took nobody knows


def test_reports_close_together_take_no_memory_and_lose_no_round() -> None:
    pace = Pace(spacing=1.0)
    for step in range(100_000):
        pace.advance(step / 100_000, step)

    assert len(pace._points) == 1
    assert pace.rate(1.0) == pytest.approx(99_999)


def test_silence_is_counted_from_the_last_word(clock: Clock, observations: Observations) -> None:
    observations.note_contact("a")
    clock.now += 3
    observations.note_contact("b")
    clock.now += 4

    assert observations.observed().silent == {"a": 7.0, "b": 4.0}


def test_who_goes_and_who_comes_back_is_said_aloud_and_taken_down(clock: Clock, observations: Observations) -> None:
    observations.note_contact("a")
    with capture_logs() as logs:
        observations.warn("a", "gone", "a has gone; the game waits for it")
        clock.now += 12.4
        observations.report_return("a")

    said = ["a has gone; the game waits for it", "a is back after 12 s"]
    assert [(each["log_level"], each["event"]) for each in logs] == list(zip(("warning", "info"), said, strict=True))
    assert [each.what for each in observations.observed().troubles] == said


def test_the_last_troubles_are_told_with_their_age_each_once(clock: Clock, observations: Observations) -> None:
    observations.record("a", "gone", "a has gone")
    clock.now += 5
    observations.record("b", "gone", "b has gone")
    clock.now += 1
    observations.record("a", "gone", "a has gone")
    clock.now += 1
    assert observations.observed().troubles == (Incident(2.0, "b has gone"), Incident(1.0, "a has gone"))

    for number in range(100):
        observations.record("a", "gone", f"trouble {number}")
    told = [each.what for each in observations.observed().troubles]
    assert told == [f"trouble {number}" for number in range(100 - LIMITS.troubles, 100)]


def test_breaches_are_troubles_wherever_they_were_counted(clock: Clock) -> None:
    own = RefusalCounter()
    observations = watching(clock, own)
    own.count(Malformed("no"), "a")
    own.count(Mismatch("a sentence of its own is told for this"), "")
    observations.record_refusals("adversary", (Refusal("OverBudget", "b", 1),))
    observations.record_refusals("adversary", (Refusal("OverBudget", "b", 1), Refusal("Unknown", "", 1)))

    assert [each.what for each in observations.observed().troubles] == [
        "coordinator has refused a message of a: Malformed",
        "adversary has refused a message of b: OverBudget",
        "adversary has refused a message of a stranger: Unknown",
    ]
    assert observations.observed().refused == own.all
    own.count(OverBudget("no"), "b")
    assert observations.observed().troubles[-1].what == "coordinator has refused a message of b: OverBudget"


def test_incidents_are_recorded_in_the_order_of_their_times_each_refusal_once(observations: Observations) -> None:
    sent: list[IncidentRecord] = []
    observations.on_record = sent.append
    observations.warn("a", "gone", "a has gone", "its stream broke")
    observations.record_refusals("adversary", (Refusal("OverBudget", "b", 1),))
    observations.record_refusals("adversary", (Refusal("OverBudget", "b", 2),))
    observations.record("a", "gone", "a has gone")

    what = "adversary has refused a message of b: OverBudget"
    assert [(each.process, each.kind, each.sentence, each.evidence) for each in sent] == [
        ("a", "gone", "a has gone", "its stream broke"),
        ("b", "refused", what, ""),
        ("a", "gone", "a has gone", ""),
    ]
    assert {each.round for each in sent} == {7}
    assert [each.time for each in sent] == sorted({each.time for each in sent})
    assert list(observations.records) == sent


def test_strangers_leave_room_for_other_incidents(observations: Observations) -> None:
    for number in range(2 * LIMITS.breaches):
        observations.record_refusal("coordinator", f"agent-{number}", f"agent-{number} is refused")

    assert len(observations.records) == LIMITS.breaches
    assert observations.observed().troubles[-1].what == f"agent-{2 * LIMITS.breaches - 1} is refused"


def test_a_host_that_comes_and_goes_leaves_room_for_other_incidents(observations: Observations) -> None:
    for number in range(2 * LIMITS.incidents_alike):
        observations.record("a", "gone" if number % 2 else "back", f"time {number}")
    observations.record("a", "gone", "once more")
    observations.record("b", "gone", "b has gone")

    assert len(observations.records) == 2 * LIMITS.incidents_alike + 1
    assert observations.records[-1].process == "b"


def test_that_a_game_was_disturbed_is_sent_again_however_long_ago_it_was(observations: Observations) -> None:
    observations.record("a", DISTURBED, "the game is disturbed")
    disturbed = observations.records[0]
    for number in range(LIMITS.incidents + 1):
        observations.record(f"host-{number}", "gone", "it has gone")

    assert observations.records[0] == disturbed
    assert len(observations.records) == LIMITS.incidents + 1


def test_what_a_host_claims_to_have_refused_is_about_that_host(observations: Observations) -> None:
    observations.record_refusals("a", (Refusal("Malformed", "b", 1),), claimed=True)

    [record] = observations.records
    assert (record.process, record.sentence) == ("a", "a has refused a message of b: Malformed")


def test_the_pace_is_observed(clock: Clock, observations: Observations) -> None:
    observations.note_score(10)
    clock.now += 2
    observations.note_score(50)

    assert observations.observed().rounds_per_second == pytest.approx(20)
