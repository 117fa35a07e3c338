"""Messages between the coordinator and everyone else."""

import numpy as np

from slaternet.codec.breaches import read_breaches, write_breaches
from slaternet.codec.parts import Assembly, split
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
    write_opening,
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
    Head,
    Heartbeat,
    Hold,
    Holding,
    LowWater,
    Opening,
    Over,
    Peer,
    Progress,
    Refusals,
    Seating,
    Spare,
    StopAt,
    Topology,
    Waiting,
)
from slaternet.v1 import common_pb2
from slaternet.v1 import coordinator_pb2 as pb


def encode_control_up(head: Head, body: ControlUp) -> bytes:  # noqa: C901 - one case for each kind of message
    """Return the message that carries `body` to the coordinator."""
    message = pb.ControlUp(head=write_head(head))
    match body:
        case Progress():
            message.progress.CopyFrom(_write_progress(body))
        case Heartbeat():
            message.heartbeat.SetInParent()
        case Checkpointed():
            message.checkpointed.SetInParent()
        case Waiting():
            message.waiting.CopyFrom(pb.Waiting(names=body.names))
        case Opening():
            message.opening.CopyFrom(write_opening(body))
        case Description():
            message.description.CopyFrom(_write_description(body))
        case Holding():
            message.holding.SetInParent()
        case Finished():
            message.finished.SetInParent()
        case Acknowledged():
            message.acknowledged.SetInParent()
        case Failed():
            message.failed.CopyFrom(pb.Failed(reason=clip(body.reason)))
        case Refusals():
            message.refusals.CopyFrom(pb.Refusals(breaches=write_breaches(body.breaches)))
    return pack(message)


def _write_progress(body: Progress) -> pb.Progress:
    return pb.Progress(cumulative_loss=body.cumulative_loss, cumulative_violation=body.cumulative_violation)


def decode_control_up(data: bytes) -> tuple[Head, ControlUp]:
    """Return what a process tells the coordinator."""
    message = parse(pb.ControlUp, data)
    head = read_head(message.head)
    return head, _read_control_up(head, message)


def _read_control_up(head: Head, message: pb.ControlUp) -> ControlUp:  # noqa: C901 - one case for each kind of message
    match message.WhichOneof("body"):
        case "progress":
            progress = message.progress
            return Progress(head.round, finite(progress.cumulative_loss), finite(progress.cumulative_violation))
        case "heartbeat":
            return HEARTBEAT
        case "checkpointed":
            return Checkpointed(from_round_one(head))
        case "waiting":
            return Waiting(from_round_one(head), names(message.waiting.names))
        case "opening":
            return read_opening(message.opening)
        case "description":
            return _read_description(message.description)
        case "holding":
            return Holding(head.round)
        case "finished":
            return Finished()
        case "acknowledged":
            return Acknowledged()
        case "failed":
            return Failed(text(message.failed.reason, LIMITS.text_bytes))
        case "refusals":
            return Refusals(read_breaches(message.refusals.breaches))
        case _:
            raise Malformed("a message to the coordinator must have a body of a kind it knows")


def encode_control_down(head: Head, body: ControlDown) -> list[bytes]:  # noqa: C901 - one case for each kind
    """Return the messages that carry `body` from the coordinator: several where a topology travels in parts."""
    about = write_head(head)
    match body:
        case Topology():
            return [pack(pb.ControlDown(head=about, topology=topology)) for topology in _topologies(body)]
        case Heartbeat():
            message = pb.ControlDown(head=about, heartbeat=common_pb2.Heartbeat())
        case Seating():
            message = pb.ControlDown(head=about, seating=_write_seating(body))
        case Spare():
            message = pb.ControlDown(head=about, spare=pb.Spare())
        case Hold():
            message = pb.ControlDown(head=about, hold=pb.Hold())
        case StopAt():
            message = pb.ControlDown(head=about, stop_at=pb.StopAt())
        case LowWater():
            message = pb.ControlDown(head=about, low_water=pb.LowWater())
        case Over():
            message = pb.ControlDown(head=about, over=pb.Over(failure=clip(body.failure)))
    return [pack(message)]


class ControlDownDecoder:
    """Decodes what the coordinator tells one process."""

    def __init__(self) -> None:
        self._assembly = Assembly()

    def decode(self, data: bytes) -> tuple[Head, ControlDown] | None:
        """Return what one message says; None where it is an unfinished part."""
        message = parse(pb.ControlDown, data)
        head = read_head(message.head)
        if message.WhichOneof("body") == "topology":
            topology = self._topology(head, message.topology)
            return None if topology is None else (head, topology)
        if message.WhichOneof("body") != "heartbeat":
            self._assembly.check_idle()
        return head, _read_control_down(head, message)

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


def _read_control_down(head: Head, message: pb.ControlDown) -> ControlDown:
    match message.WhichOneof("body"):
        case "heartbeat":
            return HEARTBEAT
        case "seating":
            return _read_seating(message.seating)
        case "spare":
            return Spare()
        case "hold":
            return Hold()
        case "stop_at":
            return StopAt(from_round_one(head))
        case "low_water":
            return LowWater(head.round)
        case "over":
            return Over(text(message.over.failure, LIMITS.text_bytes))
        case _:
            raise Malformed("a message from the coordinator must have a body of a kind we know")


def _write_description(body: Description) -> pb.Description:
    return pb.Description(
        constraints=body.constraints,
        loss_gradient=body.loss_gradient,
        constraint_gradient=body.constraint_gradient,
        history=body.history,
        rowwise=body.rowwise,
        code=body.code,
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


def _write_seating(body: Seating) -> pb.Seating:
    return pb.Seating(
        seats=write_ids(body.seats),
        peers=[_write_peer(peer) for peer in body.peers],
        adversary=_write_peer(body.adversary) if body.adversary else None,
        description=_write_description(body.description) if body.description else None,
        departures=[pb.Departure(round=each.round, agents=write_ids(each.agents)) for each in body.departures],
        low_water=body.low_water,
        recall=body.recall,
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


def _write_peer(peer: Peer) -> pb.Peer:
    return pb.Peer(
        name=peer.name,
        address=peer.address,
        incarnation=peer.incarnation,
        seats=write_ids(peer.seats),
        present=peer.present,
        accept=peer.accept,
    )


def _read_peer(message: pb.Peer) -> Peer:
    return Peer(
        name=name(message.name),
        address=address(message.address),
        incarnation=counted(message.incarnation),
        seats=read_agents(message.seats),
        present=message.present and ticket(message.present),
        accept=message.accept and ticket(message.accept),
    )


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
