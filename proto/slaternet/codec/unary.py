"""Messages of the coordinator's unary calls: joining, and asking how the game stands."""

from collections.abc import Collection
from typing import Any

from slaternet.codec.wire import (
    address,
    below,
    clip,
    counted,
    digest,
    finite,
    fits,
    name,
    names,
    pack,
    parse,
    plain,
    read_agents,
    read_head,
    read_head_outside,
    text,
    ticket,
    write_head,
    write_ids,
)
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Challenge, Head, HostStatus, Incident, Join, Refusal, Role, Status, Welcome
from slaternet.refusals import KINDS
from slaternet.v1 import coordinator_pb2 as pb

_ROLES = {str(role): role for role in Role}
_PHASES = frozenset({"gathering", "playing", "stopping", "over", "failed"})


def encode_join(head: Head, body: Join) -> bytes:
    """Return the request for a place in the game."""
    return pack(pb.JoinRequest(head=write_head(head), **plain(body, agents=write_ids(body.agents))))


def decode_join(data: bytes) -> tuple[Head, Join]:
    """Return who asks for which place."""
    message = parse(pb.JoinRequest, data)
    head = read_head_outside(message.head)
    name(head.sender)
    if head.run or head.epoch or head.round:
        raise Malformed("who asks for a place belongs to no run yet")
    agents = read_agents(message.agents)
    if agents.size and agents.size != message.seats:
        raise Malformed("who wants certain agents asks for as many seats")
    return head, Join(
        role=_role(message.role),
        address=address(message.address),
        seats=below(message.seats, LIMITS.agents),
        protocol=message.protocol,
        fingerprint=digest(message.fingerprint),
        agents=agents,
        spec=message.spec and digest(message.spec),
        durable=message.durable,
        ticket=message.ticket and ticket(message.ticket),
    )


def _role(value: str) -> Role:
    if value not in _ROLES:
        raise Malformed("a role is host or adversary")
    return _ROLES[value]


def encode_welcome(head: Head, body: Welcome | Challenge) -> bytes:
    """Return the coordinator's answer to who wants to join."""
    return pack(pb.Welcome(head=write_head(head), **plain(body)))


def decode_welcome(data: bytes) -> tuple[Head, Welcome | Challenge]:
    """Return what joining has given, or the challenge to ask again."""
    message = parse(pb.Welcome, data)
    head = read_head(message.head)
    spec = message.spec
    if not message.incarnation and not spec:
        return head, Challenge(ticket(message.ticket))
    if not spec or not fits(spec, LIMITS.spec_bytes):
        raise Malformed("a spec has 1 byte to 256 KiB")
    return head, Welcome(counted(message.incarnation), ticket(message.ticket), spec, message.low_water)


def encode_status_request(head: Head, again: bool = False) -> bytes:
    """Return the question how the game stands, which is asked `again` and again or once."""
    return pack(pb.StatusRequest(head=write_head(head), again=again))


def decode_status_request(data: bytes) -> tuple[Head, bool]:
    """Return who asks how the game stands, and whether again and again."""
    message = parse(pb.StatusRequest, data)
    return read_head_outside(message.head), message.again


def encode_status_reply(head: Head, body: Status) -> bytes:
    """Return how the game stands."""
    written = plain(
        body,
        hosts=[plain(host) for host in body.hosts],
        waiting_for=clip(body.waiting_for),
        failure=clip(body.failure),
        breaches=write_refusals(body.breaches),
        troubles=[plain(each, what=clip(each.what)) for each in body.troubles],
    )
    del written["round"]  # stands in the head
    return pack(pb.StatusReply(head=write_head(head), **written))


def decode_status_reply(data: bytes) -> tuple[Head, Status]:
    """Return how the game stands."""
    message = parse(pb.StatusReply, data)
    head = read_head(message.head)
    if message.phase not in _PHASES:
        raise Malformed("a phase is gathering, playing, stopping, over or failed")
    if len(message.hosts) > LIMITS.hosts + 1 or len(message.troubles) > LIMITS.troubles:
        raise Malformed("a status names more processes or troubles than it may")
    return head, Status(
        round=head.round,
        phase=message.phase,
        agents=below(message.agents, LIMITS.agents),
        rounds=message.rounds,
        published=message.published,
        cumulative_loss=finite(message.cumulative_loss),
        cumulative_violation=finite(message.cumulative_violation),
        hosts=tuple(_read_host(host) for host in message.hosts),
        waiting_for=text(message.waiting_for, LIMITS.text_bytes),
        failure=text(message.failure, LIMITS.text_bytes),
        breaches=read_refusals(message.breaches),
        rounds_per_second=finite(message.rounds_per_second),
        troubles=tuple(Incident(finite(each.ago), text(each.what, LIMITS.text_bytes)) for each in message.troubles),
    )


def _read_host(message: pb.HostStatus) -> HostStatus:
    return HostStatus(
        name=name(message.name),
        address=address(message.address),
        seats=below(message.seats, LIMITS.agents),
        round=message.round,
        connected=message.connected,
        role=_role(message.role),
        silent=finite(message.silent),
        waits_for=names(message.waits_for),
        spare=message.spare,
        lost=message.lost,
    )


def encode_stop_request(head: Head) -> bytes:
    """Return the wish to end the game."""
    return pack(pb.StopRequest(head=write_head(head)))


def decode_stop_request(data: bytes) -> Head:
    """Return who wishes to end the game."""
    return read_head_outside(parse(pb.StopRequest, data).head)


def encode_stop_reply(head: Head) -> bytes:
    """Return the last round of the game, the head's; 0 where it is not settled yet."""
    return pack(pb.StopReply(head=write_head(head)))


def decode_stop_reply(data: bytes) -> Head:
    """Return the last round of the game in the head; 0 where it is not settled yet."""
    return read_head(parse(pb.StopReply, data).head)


def write_refusals(breaches: Collection[Refusal]) -> list[dict[str, Any]]:
    """Return breaches as a message takes them."""
    return [plain(each) for each in breaches]


def read_refusals(messages: Collection[pb.Breach]) -> tuple[Refusal, ...]:
    """Return breaches of kinds that are known, by hosts that may be."""
    below(len(messages), LIMITS.breaches)
    if any(message.kind not in KINDS for message in messages):
        raise Malformed("a breach is of a kind that has an error of its own")
    return tuple(
        Refusal(each.kind, each.host and name(each.host), counted(each.count), each.server and name(each.server))
        for each in messages
    )
