"""Messages between the coordinator and the other processes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from slaternet import model
from slaternet.codec import wire
from slaternet.codec.parts import Assembly, split
from slaternet.codec.unary import read_description, read_refusals, write_refusals
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.texts import cleaned
from slaternet.v1 import coordinator_pb2 as pb


def encode_control_up(head: model.Head, body: model.ControlUp) -> bytes:
    """Return the message that carries `body` to the coordinator."""
    field, write, _ = _UP[type(body)]
    return wire.pack(pb.ControlUp(head=wire.write_head(head), **{field: write(body)}))


def decode_control_up(data: bytes) -> tuple[model.Head, model.ControlUp]:
    """Return a message to the coordinator."""
    message, head = wire.parse(pb.ControlUp, data)
    field = message.WhichOneof("body")
    if field is None:
        raise Malformed("a message to the coordinator must have a body of a kind it knows")
    return head, _READ_UP[field](head, getattr(message, field))


def encode_control_down(head: model.Head, body: model.ControlDown) -> list[bytes]:
    """Return the messages that carry `body` from the coordinator; a large topology is split into several."""
    about = wire.write_head(head)
    if isinstance(body, model.Topology):
        return [wire.pack(pb.ControlDown(head=about, topology=topology)) for topology in _topologies(body)]
    field, write, _ = _DOWN[type(body)]
    return [wire.pack(pb.ControlDown(head=about, **{field: write(body)}))]


class ControlDownDecoder:
    """Decodes the coordinator's messages to one process of a game of so many agents."""

    def __init__(self, agents: int = LIMITS.agents) -> None:
        self._agents = agents
        self._assembly = Assembly()

    def decode(self, data: bytes) -> tuple[model.Head, model.ControlDown] | None:
        """Return one message; None where it is a part and others follow."""
        message, head = wire.parse(pb.ControlDown, data)
        field = message.WhichOneof("body")
        if field == "topology":
            topology = self._topology(head, message.topology)
            return None if topology is None else (head, topology)
        if field != "heartbeat":
            self._assembly.check_idle()
        if field is None:
            raise Malformed("a message from the coordinator must have a body of a kind we know")
        return head, _READ_DOWN[field](head, getattr(message, field))

    def _topology(self, head: model.Head, message: pb.Topology) -> model.Topology | None:
        rounds, seats = wire.below(message.rounds, LIMITS.topology_rounds), wire.below(message.seats, self._agents)
        rows, entries, debts = rounds * seats, message.entries, message.debts
        if not rows or entries < rows:
            raise Malformed("a topology needs at least one round, one row and one entry in each row")
        if max(entries, debts) > rows * self._agents:
            raise Malformed("a topology has more entries or debts than agents mix each other's rows")
        shape = (head, rounds, seats, entries, debts, message.low_water)
        length = 8 * entries + 4 * (rows + 1 + entries + 3 * debts)
        payload = self._assembly.take(message.data, message.part, message.parts, shape, length)
        if payload is None:
            return None
        weights, ids = wire.read_numbers(payload[: 8 * entries]), wire.read_ids(payload[8 * entries :])
        starts, columns, owed = np.split(ids, (rows + 1, rows + 1 + entries))
        _check_rows(starts, columns, weights)
        return model.Topology(
            wire.from_round_one(head), rounds, starts, columns, weights, _read_debts(rounds, owed), message.low_water
        )


def _write_seating(body: model.Seating) -> dict[str, Any]:
    return wire.plain(
        body,
        seats=wire.write_ids(body.seats),
        peers=[_write_peer(peer) for peer in body.peers],
        adversary=_write_peer(body.adversary) if body.adversary else None,
        description=wire.plain(body.description) if body.description else None,
        departures=[wire.plain(each, agents=wire.write_ids(each.agents)) for each in body.departures],
    )


def _read_seating(message: pb.Seating) -> model.Seating:
    if len(message.peers) > LIMITS.hosts or len(message.departures) > LIMITS.hosts:
        raise Malformed("a seating names more hosts than a game may have")
    return model.Seating(
        seats=wire.read_agents(message.seats),
        peers=tuple(map(_read_peer, message.peers)),
        adversary=_read_peer(message.adversary) if message.HasField("adversary") else None,
        description=read_description(message.description) if message.HasField("description") else None,
        departures=tuple(map(_read_departure, message.departures)),
        low_water=message.low_water,
        recall=message.recall,
    )


def _read_departure(message: pb.Departure) -> model.Departure:
    agents = wire.read_agents(message.agents)
    if message.round < 2 or not agents.size:
        raise Malformed("a departure names agents, and the round after one that they have played")
    return model.Departure(message.round, agents)


def _write_peer(peer: model.Peer) -> dict[str, Any]:
    return wire.plain(peer, seats=wire.write_ids(peer.seats))


def _read_peer(message: pb.Peer) -> model.Peer:
    if not message.address and (message.present or message.accept):
        raise Malformed("there are no tickets between a process and one that is shut out")
    return model.Peer(
        name=wire.name(message.name),
        address=message.address and wire.address(message.address),
        incarnation=wire.counted(message.incarnation),
        seats=wire.read_agents(message.seats),
        present=message.present and wire.ticket(message.present),
        accept=message.accept and wire.ticket(message.accept),
    )


def _some_agents(data: bytes) -> model.Agents:
    agents = wire.read_agents(data)
    if not agents.size:
        raise Malformed("a message must name its agents")
    return agents


def _read_rows(data: bytes, agents: model.Agents) -> model.Array:
    """Return the rows of some agents; none of them has a number where the sender cannot tell."""
    if len(data) > LIMITS.part_bytes or len(data) % (8 * agents.size):
        raise Malformed("rows of agents have as many numbers each, and 512 KiB at most")
    return wire.read_numbers(data).reshape(agents.size, -1)


def _rows_fields(body: model.DisputedRows | model.Dispute) -> dict[str, Any]:
    return {"agents": wire.write_ids(body.agents), "rows": wire.write_numbers(body.rows)}


def _rows_of(head: model.Head, message: pb.Rows) -> model.DisputedRows:
    agents = _some_agents(message.agents)
    return model.DisputedRows(wire.from_round_one(head), agents, _read_rows(message.rows, agents))


def _dispute_of(head: model.Head, message: pb.Dispute) -> model.Dispute:
    agents = _some_agents(message.agents)
    rows = _read_rows(message.rows, agents)
    return model.Dispute(wire.from_round_one(head), wire.name(message.host), agents, rows)


# The kinds of messages: the field that carries each, its writer and its reader.


def _fields(body: object) -> dict[str, Any]:
    """Return the fields of a body except the round, which stands in the head."""
    return {key: value for key, value in wire.plain(body).items() if key != "round"}


_UP: dict[type, tuple[str, Callable[[Any], Any], Callable[[model.Head, Any], model.ControlUp]]] = {
    model.Progress: (
        "progress",
        _fields,
        lambda head, message: model.Progress(
            head.round, wire.finite(message.cumulative_loss), wire.finite(message.cumulative_violation)
        ),
    ),
    model.Heartbeat: ("heartbeat", _fields, lambda head, message: wire.HEARTBEAT),
    model.Checkpointed: ("checkpointed", _fields, lambda head, message: model.Checkpointed(wire.from_round_one(head))),
    model.Waiting: (
        "waiting",
        _fields,
        lambda head, message: model.Waiting(wire.from_round_one(head), wire.names(message.names)),
    ),
    model.Opening: ("opening", wire.plain, lambda head, message: wire.read_opening(message)),
    model.Description: ("description", wire.plain, lambda head, message: read_description(message)),
    model.Holding: ("holding", _fields, lambda head, message: model.Holding(head.round)),
    model.Finished: ("finished", _fields, lambda head, message: model.Finished()),
    model.Acknowledged: ("acknowledged", _fields, lambda head, message: model.Acknowledged()),
    model.Failed: (
        "failed",
        lambda body: {"reason": cleaned(body.reason)},
        lambda head, message: model.Failed(wire.sentence(message.reason)),
    ),
    model.Refusals: (
        "refusals",
        lambda body: {"breaches": write_refusals(body.breaches)},
        lambda head, message: model.Refusals(read_refusals(message.breaches)),
    ),
    model.Accusation: (
        "accusation",
        lambda body: {"host": body.host, "what": cleaned(body.what)},
        lambda head, message: model.Accusation(wire.name(message.host), wire.sentence(message.what)),
    ),
    model.Dispute: ("dispute", lambda body: {"host": body.host, **_rows_fields(body)}, _dispute_of),
    model.DisputedRows: ("rows", _rows_fields, _rows_of),
    model.Disturbed: (
        "disturbed",
        lambda body: {"agents": wire.write_ids(body.agents)},
        lambda head, message: model.Disturbed(wire.from_round_one(head), _some_agents(message.agents)),
    ),
}
_READ_UP = {field: read for field, _, read in _UP.values()}

_DOWN: dict[type, tuple[str, Callable[[Any], Any], Callable[[model.Head, Any], model.ControlDown]]] = {
    model.Heartbeat: ("heartbeat", _fields, lambda head, message: wire.HEARTBEAT),
    model.Seating: ("seating", _write_seating, lambda head, message: _read_seating(message)),
    model.Standby: ("spare", _fields, lambda head, message: model.Standby()),
    model.Hold: ("hold", _fields, lambda head, message: model.Hold()),
    model.StopAt: ("stop_at", _fields, lambda head, message: model.StopAt(wire.from_round_one(head))),
    model.LowWater: ("low_water", _fields, lambda head, message: model.LowWater(head.round)),
    model.GameOver: (
        "over",
        lambda body: {"failure": cleaned(body.failure)},
        lambda head, message: model.GameOver(wire.sentence(message.failure)),
    ),
    model.IncidentRecord: (
        "incident",
        lambda body: _fields(replace(body, sentence=cleaned(body.sentence), evidence=cleaned(body.evidence))),
        lambda head, message: model.IncidentRecord(
            head.round,
            wire.finite(message.time),
            wire.name(message.process),
            wire.name(message.kind),
            wire.sentence(message.sentence),
            wire.sentence(message.evidence),
        ),
    ),
    model.RowRequest: (
        "row_request",
        lambda body: {"agents": wire.write_ids(body.agents), "ticket": body.ticket},
        lambda head, message: model.RowRequest(
            wire.from_round_one(head), _some_agents(message.agents), message.ticket and wire.ticket(message.ticket)
        ),
    ),
    model.DisputedRows: ("ruling", _rows_fields, _rows_of),
}
_READ_DOWN = {field: read for field, _, read in _DOWN.values()}


def _topologies(body: model.Topology) -> list[pb.Topology]:
    numbers = wire.write_numbers(body.weights)
    payload = numbers + wire.write_ids(np.concatenate((body.starts, body.columns, body.debts.ravel())))
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


def _check_rows(starts: model.Agents, columns: model.Agents, weights: model.Array) -> None:
    if starts[0] != 0 or starts[-1] != columns.size or not (starts[1:] > starts[:-1]).all():
        raise Malformed("rows of a topology must follow one another, none of them empty")
    ascends = columns[1:] > columns[:-1]
    ascends[starts[1:-1] - 1] = True  # where a new row begins
    if not ascends.all() or columns.max() >= LIMITS.agents:
        raise Malformed("columns of a row must ascend and lie within the game")
    if not ((weights > 0.0) & (weights <= 1.0)).all():
        raise Malformed("weights of a topology lie in (0, 1]")


def _read_debts(rounds: int, ids: model.Agents) -> model.Agents:
    debts = ids.reshape(-1, 3)
    if not debts.size:
        return debts
    if (debts >= np.array([rounds, LIMITS.hosts, LIMITS.agents])).any():
        raise Malformed("a debt names a round, a peer or an agent beyond the limits")
    order = (debts[:, 0] * LIMITS.hosts + debts[:, 1]) * LIMITS.agents + debts[:, 2]
    if not (order[1:] > order[:-1]).all():
        raise Malformed("debts must ascend")
    return debts
