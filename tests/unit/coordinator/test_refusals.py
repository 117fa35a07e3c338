from slaternet.limits import LIMITS
from slaternet.model import PROTOCOL, Join, Refusal, Refusals, Role
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import Joined, Said
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.status import Observed
from slaternet_coordinator.graphs.fixed import Complete


def gathered(*hosts: str) -> Coordinator:
    """Return a coordinator that these hosts, and after them the adversary, have joined."""
    coordinator = Coordinator(Complete(8, 1), Rules(agents=8, hosts=8, rounds=5), bytes(32))
    for name in (*hosts, "adversary"):
        role = Role.ADVERSARY if name == "adversary" else Role.HOST
        coordinator.handle(Joined(name, Join(role, "localhost:1", 0, PROTOCOL, "")))
    return coordinator


def test_the_status_says_who_has_refused_what_and_whom_all_must_trust_comes_first() -> None:
    coordinator = gathered("a", "b")
    assert coordinator.status().breaches == ()

    coordinator.handle(Said("b", Refusals((Refusal("Malformed", "a", 2, "adversary"),))))  # it speaks for itself alone
    coordinator.handle(Said("adversary", Refusals((Refusal("OverBudget", "a", 1),))))
    coordinator.handle(Said("adversary", Refusals((Refusal("OverBudget", "a", 3), Refusal("Unknown", "", 1)))))

    assert coordinator.status(Observed(refused=(Refusal("Unknown", "", 4),))).breaches == (
        Refusal("Unknown", "", 4, "coordinator"),
        Refusal("OverBudget", "a", 3, "adversary"),
        Refusal("Unknown", "", 1, "adversary"),
        Refusal("Malformed", "a", 2, "b"),
    )


def test_a_host_that_reports_too_many_breaches_hides_none_of_the_adversary_s() -> None:
    coordinator = gathered("a", "b")
    many = tuple(Refusal("Malformed", f"host-{number}", 1) for number in range(LIMITS.breaches))
    for host in ("a", "b"):
        coordinator.handle(Said(host, Refusals(many)))
    coordinator.handle(Said("adversary", Refusals((Refusal("OverBudget", "a", 1),))))

    breaches = coordinator.status().breaches
    assert len(breaches) == LIMITS.breaches
    assert breaches[0] == Refusal("OverBudget", "a", 1, "adversary")
