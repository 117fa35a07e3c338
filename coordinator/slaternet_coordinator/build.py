"""From a spec to the coordinator that plays it."""

from slaternet import identity
from slaternet.errors import BadSpec
from slaternet.limits import Limits
from slaternet.spec import Spec
from slaternet_coordinator.engine import Coordinator
from slaternet_coordinator.graphs import check_departures
from slaternet_coordinator.policy import Policy
from slaternet_coordinator.register import Register
from slaternet_coordinator.registry import build as build_graph


def build_register(spec: Spec, hosts: int | None, secret: bytes, limits: Limits) -> Register:
    """Return the register of a game in which nobody has a place yet; BadSpec where there are too many hosts for it."""
    if hosts is not None and hosts > spec.run.agents:
        raise BadSpec(
            f"--hosts {hosts} is more than the {spec.run.agents} agents of the game; every host needs an agent"
        )
    return Register(
        spec.run.agents,
        hosts=hosts,
        secret=secret,
        fingerprint=identity.fingerprint(),
        spec=spec.digest(),
        reproducible=spec.run.reproducible,
        limits=limits,
    )


def build_coordinator(spec: Spec, register: Register, policy: Policy, limits: Limits) -> Coordinator:
    """Return the engine of a game; BadSpec where the policy does not fit it."""
    graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
    if policy is Policy.LEAVE or spec.departures:
        check_departures(spec, graph)
    return Coordinator(
        graph,
        register,
        spec.run.rounds,
        limits,
        policy=policy,
        departures=spec.leaving,
        together=spec.algorithm.mode == "central",
    )
