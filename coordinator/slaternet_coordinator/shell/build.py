"""Builds the engine of a coordinator from a spec."""

from slaternet.errors import BadSpec
from slaternet.limits import Limits
from slaternet.numerics import fingerprint as identity
from slaternet.spec import Spec
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.rules import Policy, Rules
from slaternet_coordinator.graphs import check_departures
from slaternet_coordinator.registry import build as build_graph


def build_coordinator(spec: Spec, hosts: int | None, policy: Policy, secret: bytes, limits: Limits) -> Coordinator:
    """Return the engine of a game; BadSpec where there are too many hosts for it, or the policy does not fit it."""
    if hosts is not None and hosts > spec.run.agents:
        raise BadSpec(
            f"--hosts {hosts} is more than the {spec.run.agents} agents of the game; every host needs an agent"
        )
    graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
    if policy is Policy.LEAVE or spec.departures:
        check_departures(spec, graph)
    rules = Rules(
        agents=spec.run.agents,
        hosts=hosts,
        rounds=spec.run.rounds,
        fingerprint=identity.fingerprint(),
        reproducible=spec.run.reproducible,
        spec=spec.digest(),
        sealed=spec.sealed,
        policy=policy,
        departures=spec.leaving,
        remembers=spec.gossip.remembers,
        together=spec.algorithm.mode == "central",
    )
    return Coordinator(graph, rules, secret, limits)
