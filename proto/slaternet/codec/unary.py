"""Messages of the coordinator's unary calls: Join, Status and Stop."""

from collections.abc import Collection
from typing import Any

from slaternet.codec import wire
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Challenge, Description, Head, HostStatus, Incident, Join, Refusal, Role, Status, Welcome
from slaternet.refusals import KINDS
from slaternet.texts import cleaned
from slaternet.v1 import coordinator_pb2 as pb

_ROLES = {str(role): role for role in Role}
_PHASES = frozenset({"gathering", "playing", "stopping", "over", "failed"})


def encode_join(head: Head, body: Join) -> bytes:
    """Return the request for a place in the game."""
    return wire.pack(pb.JoinRequest(head=wire.write_head(head), **wire.plain(body, agents=wire.write_ids(body.agents))))


def decode_join(data: bytes) -> tuple[Head, Join]:
    """Return the request for a place in the game."""
    message, head = wire.parse(pb.JoinRequest, data, outside=True)
    wire.name(head.sender)
    if head.run or head.epoch or head.round:
        raise Malformed("a process that joins belongs to no run yet")
    agents = wire.read_agents(message.agents)
    if agents.size and agents.size != message.seats:
        raise Malformed("a request for certain agents must ask for as many seats")
    return head, Join(
        role=_role(message.role),
        address=wire.address(message.address),
        seats=wire.below(message.seats, LIMITS.agents),
        protocol=message.protocol,
        fingerprint=wire.digest(message.fingerprint),
        agents=agents,
        spec_tag=message.spec_tag and wire.digest(message.spec_tag),
        durable=message.durable,
        ticket=message.ticket and wire.ticket(message.ticket),
    )


def _role(value: str) -> Role:
    if value not in _ROLES:
        raise Malformed("a role is host or adversary")
    return _ROLES[value]


def encode_welcome(head: Head, body: Welcome | Challenge) -> bytes:
    """Return the coordinator's answer to Join."""
    written = wire.plain(body)
    if isinstance(body, Welcome) and body.description is not None:
        written["description"] = wire.plain(body.description)
    return wire.pack(pb.Welcome(head=wire.write_head(head), **written))


def decode_welcome(data: bytes) -> tuple[Head, Welcome | Challenge]:
    """Return the coordinator's answer to Join: a welcome, or a challenge to ask again."""
    message, head = wire.parse(pb.Welcome, data)
    spec = message.spec
    if not message.incarnation and not spec:
        return head, Challenge(wire.ticket(message.ticket))
    if not spec or not wire.fits(spec, LIMITS.spec_bytes):
        raise Malformed("a spec has 1 byte to 256 KiB")
    return head, Welcome(
        wire.counted(message.incarnation),
        wire.ticket(message.ticket),
        spec,
        wire.digest(message.spec_tag),
        message.low_water,
        read_description(message.description) if message.HasField("description") else None,
    )


def read_description(message: pb.Description) -> Description:
    """Return what a message says of the adversary's plugin."""
    return Description(
        constraints=wire.below(message.constraints, LIMITS.constraints),
        loss_gradient=message.loss_gradient,
        constraint_gradient=message.constraint_gradient,
        history=message.history,
        rowwise=message.rowwise,
        code=message.code and wire.digest(message.code),
    )


def encode_status_request(head: Head, again: bool = False) -> bytes:
    """Return the request for the game's status; `again`: the sender polls."""
    return wire.pack(pb.StatusRequest(head=wire.write_head(head), again=again))


def decode_status_request(data: bytes) -> tuple[Head, bool]:
    """Return the sender of a status request, and whether it polls."""
    message, head = wire.parse(pb.StatusRequest, data, outside=True)
    return head, message.again


def encode_status_reply(head: Head, body: Status) -> bytes:
    """Return the status of the game."""
    written = wire.plain(
        body,
        hosts=[wire.plain(host, shut_out=cleaned(host.shut_out)) for host in body.hosts],
        waiting_for=cleaned(body.waiting_for),
        failure=cleaned(body.failure),
        breaches=write_refusals(body.breaches),
        scores_withheld=body.cumulative_loss is None,
        troubles=[wire.plain(each, what=cleaned(each.what)) for each in body.troubles],
    )
    del written["round"]  # it stands in the head
    return wire.pack(pb.StatusReply(head=wire.write_head(head), **written))


def decode_status_reply(data: bytes) -> tuple[Head, Status]:
    """Return the status of the game."""
    message, head = wire.parse(pb.StatusReply, data)
    if message.phase not in _PHASES:
        raise Malformed("a phase is gathering, playing, stopping, over or failed")
    if len(message.hosts) > LIMITS.hosts + 1 or len(message.troubles) > LIMITS.troubles:
        raise Malformed("a status names more processes or troubles than it may")
    return head, Status(
        round=head.round,
        phase=message.phase,
        agents=wire.below(message.agents, LIMITS.agents),
        rounds=message.rounds,
        published=message.published,
        cumulative_loss=None if message.scores_withheld else wire.finite(message.cumulative_loss),
        cumulative_violation=None if message.scores_withheld else wire.finite(message.cumulative_violation),
        hosts=tuple(map(_read_host, message.hosts)),
        waiting_for=wire.sentence(message.waiting_for),
        failure=wire.sentence(message.failure),
        breaches=read_refusals(message.breaches),
        rounds_per_second=wire.finite(message.rounds_per_second),
        troubles=tuple(Incident(wire.finite(each.ago), wire.sentence(each.what)) for each in message.troubles),
        disturbed=message.disturbed,
        sealed=message.sealed,
    )


def _read_host(message: pb.HostStatus) -> HostStatus:
    return HostStatus(
        name=wire.name(message.name),
        address=wire.address(message.address),
        seats=wire.below(message.seats, LIMITS.agents),
        round=message.round,
        connected=message.connected,
        role=_role(message.role),
        silent=wire.finite(message.silent),
        waits_for=wire.names(message.waits_for),
        spare=message.spare,
        lost=message.lost,
        shut_out=wire.sentence(message.shut_out),
    )


def encode_stop_request(head: Head) -> bytes:
    """Return the request to end the game."""
    return wire.pack(pb.StopRequest(head=wire.write_head(head)))


def decode_stop_request(data: bytes) -> Head:
    """Return the head of a request to end the game."""
    return wire.parse(pb.StopRequest, data, outside=True)[1]


def encode_stop_reply(head: Head) -> bytes:
    """Return the answer to Stop; the head's round is the game's last one, 0 where it is not fixed yet."""
    return wire.pack(pb.StopReply(head=wire.write_head(head)))


def decode_stop_reply(data: bytes) -> Head:
    """Return the answer to Stop: a head with the game's last round, 0 where it is not fixed yet."""
    return wire.parse(pb.StopReply, data)[1]


def write_refusals(breaches: Collection[Refusal]) -> list[dict[str, Any]]:
    """Return refusals as message fields."""
    return [wire.plain(each) for each in breaches]


def read_refusals(messages: Collection[pb.Breach]) -> tuple[Refusal, ...]:
    """Return refusals; Malformed where a kind is unknown or a name is none."""
    wire.below(len(messages), LIMITS.breaches)
    if any(message.kind not in KINDS for message in messages):
        raise Malformed("a breach is of a kind that has an error of its own")
    return tuple(
        Refusal(
            each.kind,
            each.host and wire.name(each.host),
            wire.counted(each.count),
            each.server and wire.name(each.server),
        )
        for each in messages
    )
