"""Messages between the coordinator and everyone else."""

from collections.abc import Callable
from typing import Any

import numpy as np

from slaternet.codec.parts import Assembly, split
from slaternet.codec.unary import read_refusals, write_refusals
from slaternet.codec.wire import (
    HEARTBEAT,
    address,
    below,
    clip,
    counted,
    digest,
    finite,
    from_round_one,
    name,
    names,
    pack,
    parse,
    plain,
    read_agents,
    read_head,
    read_ids,
    read_numbers,
    read_opening,
    text,
    ticket,
    write_head,
    write_ids,
    write_numbers,
)
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Agents,
    Array,
    Checkpointed,
    ControlDown,
    ControlUp,
    Departure,
    Description,
    Failed,
    Finished,
    GameOver,
    Head,
    Heartbeat,
    Hold,
    Holding,
    LowWater,
    Opening,
    Peer,
    Progress,
    Refusals,
    Seating,
    Standby,
    StopAt,
    Topology,
    Waiting,
)
from slaternet.v1 import coordinator_pb2 as pb


def encode_control_up(head: Head, body: ControlUp) -> bytes:
    """Return the message that carries `body` to the coordinator."""
    field, write, _ = _UP[type(body)]
    return pack(pb.ControlUp(head=write_head(head), **{field: write(body)}))


def decode_control_up(data: bytes) -> tuple[Head, ControlUp]:
    """Return what a process tells the coordinator."""
    message = parse(pb.ControlUp, data)
    head = read_head(message.head)
    field = message.WhichOneof("body")
    if field is None:
        raise Malformed("a message to the coordinator must have a body of a kind it knows")
    return head, _READ_UP[field](head, getattr(message, field))


def encode_control_down(head: Head, body: ControlDown) -> list[bytes]:
    """Return the messages that carry `body` from the coordinator: several where a topology travels in parts."""
    about = write_head(head)
    if isinstance(body, Topology):
        return [pack(pb.ControlDown(head=about, topology=topology)) for topology in _topologies(body)]
    field, write, _ = _DOWN[type(body)]
    return [pack(pb.ControlDown(head=about, **{field: write(body)}))]


class ControlDownDecoder:
    """Decodes what the coordinator tells one process."""

    def __init__(self) -> None:
        self._assembly = Assembly()

    def decode(self, data: bytes) -> tuple[Head, ControlDown] | None:
        """Return what one message says; None where it is an unfinished part."""
        message = parse(pb.ControlDown, data)
        head = read_head(message.head)
        field = message.WhichOneof("body")
        if field == "topology":
            topology = self._topology(head, message.topology)
            return None if topology is None else (head, topology)
        if field != "heartbeat":
            self._assembly.check_idle()
        if field is None:
            raise Malformed("a message from the coordinator must have a body of a kind we know")
        return head, _READ_DOWN[field](head, getattr(message, field))

    def _topology(self, head: Head, message: pb.Topology) -> Topology | None:
        rounds, seats = below(message.rounds, LIMITS.topology_rounds), below(message.seats, LIMITS.agents)
        rows, entries, debts = rounds * seats, message.entries, message.debts
        if not rows or entries < rows:
            raise Malformed("a topology needs at least one round, one row and one entry in each row")
        shape = (head, rounds, seats, entries, debts, message.low_water)
        length = 8 * entries + 4 * (rows + 1 + entries + 3 * debts)
        payload = self._assembly.take(message.data, message.part, message.parts, shape, length)
        if payload is None:
            return None
        weights, ids = read_numbers(payload[: 8 * entries]), read_ids(payload[8 * entries :])
        starts, columns, owed = np.split(ids, (rows + 1, rows + 1 + entries))
        _check_rows(starts, columns, weights)
        return Topology(
            from_round_one(head), rounds, starts, columns, weights, _read_debts(rounds, owed), message.low_water
        )


def _read_description(message: pb.Description) -> Description:
    return Description(
        constraints=below(message.constraints, LIMITS.constraints),
        loss_gradient=message.loss_gradient,
        constraint_gradient=message.constraint_gradient,
        history=message.history,
        rowwise=message.rowwise,
        code=message.code and digest(message.code),
    )


def _write_seating(body: Seating) -> dict[str, Any]:
    return plain(
        body,
        seats=write_ids(body.seats),
        peers=[_write_peer(peer) for peer in body.peers],
        adversary=_write_peer(body.adversary) if body.adversary else None,
        description=plain(body.description) if body.description else None,
        departures=[plain(each, agents=write_ids(each.agents)) for each in body.departures],
    )


def _read_seating(message: pb.Seating) -> Seating:
    if len(message.peers) > LIMITS.hosts or len(message.departures) > LIMITS.hosts:
        raise Malformed("a seating names more hosts than a game may have")
    return Seating(
        seats=read_agents(message.seats),
        peers=tuple(_read_peer(peer) for peer in message.peers),
        adversary=_read_peer(message.adversary) if message.HasField("adversary") else None,
        description=_read_description(message.description) if message.HasField("description") else None,
        departures=tuple(_read_departure(each) for each in message.departures),
        low_water=message.low_water,
        recall=message.recall,
    )


def _read_departure(message: pb.Departure) -> Departure:
    agents = read_agents(message.agents)
    if message.round < 2 or not agents.size:
        raise Malformed("a departure names agents, and the round after one that they have played")
    return Departure(message.round, agents)


def _write_peer(peer: Peer) -> dict[str, Any]:
    return plain(peer, seats=write_ids(peer.seats))


def _read_peer(message: pb.Peer) -> Peer:
    return Peer(
        name=name(message.name),
        address=address(message.address),
        incarnation=counted(message.incarnation),
        seats=read_agents(message.seats),
        present=message.present and ticket(message.present),
        accept=message.accept and ticket(message.accept),
    )


# The kinds of messages: the field that carries each, how it is written, and how it is read. The head has the round.


def _empty(body: object) -> dict[str, Any]:
    return {}


_UP: dict[type, tuple[str, Callable[[Any], Any], Callable[[Head, Any], ControlUp]]] = {
    Progress: (
        "progress",
        lambda body: {"cumulative_loss": body.cumulative_loss, "cumulative_violation": body.cumulative_violation},
        lambda head, message: Progress(
            head.round, finite(message.cumulative_loss), finite(message.cumulative_violation)
        ),
    ),
    Heartbeat: ("heartbeat", _empty, lambda head, message: HEARTBEAT),
    Checkpointed: ("checkpointed", _empty, lambda head, message: Checkpointed(from_round_one(head))),
    Waiting: (
        "waiting",
        lambda body: {"names": body.names},
        lambda head, message: Waiting(from_round_one(head), names(message.names)),
    ),
    Opening: ("opening", plain, lambda head, message: read_opening(message)),
    Description: ("description", plain, lambda head, message: _read_description(message)),
    Holding: ("holding", _empty, lambda head, message: Holding(head.round)),
    Finished: ("finished", _empty, lambda head, message: Finished()),
    Acknowledged: ("acknowledged", _empty, lambda head, message: Acknowledged()),
    Failed: (
        "failed",
        lambda body: {"reason": clip(body.reason)},
        lambda head, message: Failed(text(message.reason, LIMITS.text_bytes)),
    ),
    Refusals: (
        "refusals",
        lambda body: {"breaches": write_refusals(body.breaches)},
        lambda head, message: Refusals(read_refusals(message.breaches)),
    ),
}
_READ_UP = {field: read for field, _, read in _UP.values()}

_DOWN: dict[type, tuple[str, Callable[[Any], Any], Callable[[Head, Any], ControlDown]]] = {
    Heartbeat: ("heartbeat", _empty, lambda head, message: HEARTBEAT),
    Seating: ("seating", _write_seating, lambda head, message: _read_seating(message)),
    Standby: ("spare", _empty, lambda head, message: Standby()),
    Hold: ("hold", _empty, lambda head, message: Hold()),
    StopAt: ("stop_at", _empty, lambda head, message: StopAt(from_round_one(head))),
    LowWater: ("low_water", _empty, lambda head, message: LowWater(head.round)),
    GameOver: (
        "over",
        lambda body: {"failure": clip(body.failure)},
        lambda head, message: GameOver(text(message.failure, LIMITS.text_bytes)),
    ),
}
_READ_DOWN = {field: read for field, _, read in _DOWN.values()}


def _topologies(body: Topology) -> list[pb.Topology]:
    numbers = write_numbers(body.weights)
    payload = numbers + write_ids(np.concatenate((body.starts, body.columns, body.debts.ravel())))
    pieces = split(payload)
    parts = len(pieces) if len(pieces) > 1 else 0
    return [
        pb.Topology(
            rounds=body.rounds,
            seats=(len(body.starts) - 1) // body.rounds,
            entries=len(body.columns),
            debts=len(body.debts),
            data=piece,
            part=part,
            parts=parts,
            low_water=body.low_water,
        )
        for part, piece in enumerate(pieces)
    ]


def _check_rows(starts: Agents, columns: Agents, weights: Array) -> None:
    if starts[0] != 0 or starts[-1] != columns.size or not (starts[1:] > starts[:-1]).all():
        raise Malformed("rows of a topology must follow one another, none of them empty")
    ascends = columns[1:] > columns[:-1]
    ascends[starts[1:-1] - 1] = True  # where a new row begins
    if not ascends.all() or columns.max() >= LIMITS.agents:
        raise Malformed("columns of a row must ascend and lie within the game")
    if not ((weights > 0.0) & (weights <= 1.0)).all():
        raise Malformed("weights of a topology lie in (0, 1]")


def _read_debts(rounds: int, ids: Agents) -> Agents:
    debts = ids.reshape(-1, 3)
    if not debts.size:
        return debts
    if (debts >= np.array([rounds, LIMITS.hosts, LIMITS.agents])).any():
        raise Malformed("a debt names a round, a peer or an agent that cannot be")
    order = (debts[:, 0] * LIMITS.hosts + debts[:, 1]) * LIMITS.agents + debts[:, 2]
    if not (order[1:] > order[:-1]).all():
        raise Malformed("debts must ascend")
    return debts
