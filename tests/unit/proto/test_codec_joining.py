"""What hosts ask for, whom they wait for, and how a coordinator tells it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slaternet import codec, model
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Head, HostStatus, Incident, Join, Role, Standby, Status, Waiting
from slaternet.v1 import common_pb2
from slaternet.v1 import coordinator_pb2 as pb

HEAD = Head("run-1", 2, 7, "agent-1")
STRANGER = Head("", 0, 0, "agent-1")
PB_HEAD = common_pb2.Head(run="run-1", epoch=2, round=7, sender="agent-1")
PB_STRANGER = common_pb2.Head(sender="agent-1")
HOST = HostStatus("agent-1", "h:1", 3, 5, True, Role.HOST, 1.25, ("agent-2", "coordinator"), False)
STATUS = Status(
    7,
    "stopping",
    9,
    100,
    64,
    1.5,
    0.25,
    (HOST, HostStatus("adversary", "h:2", 0, 5, False, Role.ADVERSARY), replace(HOST, name="agent-3", spare=True)),
    waiting_for="agent-2, silent for 12 s: agent-1 waits for it",
    rounds_per_second=812.5,
    troubles=(Incident(12.5, "agent-2 has gone"), Incident(0.0, "agent-2 is back")),
)


def join(**fields: Any) -> bytes:
    right = {"head": PB_STRANGER, "role": "host", "address": "h:1", "seats": 2, "protocol": 1, "fingerprint": "ab" * 32}
    return pb.JoinRequest(**{**right, **fields}).SerializeToString()


def ids(*agents: int) -> bytes:
    return np.array(agents, "<u4").tobytes()


def status(**fields: Any) -> bytes:
    right = {"head": PB_HEAD, "phase": "playing", "agents": 9}
    return pb.StatusReply(**{**right, **fields}).SerializeToString()


def host(**fields: Any) -> pb.HostStatus:
    right = {"name": "agent-1", "address": "h:1", "role": "host"}
    return pb.HostStatus(**{**right, **fields})


@pytest.mark.parametrize("description", [None, model.Description(2, history=3, code="0f" * 32)])
def test_a_welcome_tells_the_adversary_of_a_game_under_way_which_plugin_it_was_begun_with(
    description: model.Description | None,
) -> None:
    welcome = model.Welcome(2, bytes(32), "[run]", "5e" * 32, 64, description)

    assert codec.decode_welcome(codec.encode_welcome(HEAD, welcome)) == (HEAD, welcome)


@pytest.mark.parametrize("agents", [(), (0,), (0, 3, 65535)])
@pytest.mark.parametrize("spec", ["", "0f" * 32])
def test_a_join_says_which_agents_it_wants_and_what_it_has_begun(agents: tuple[int, ...], spec: str) -> None:
    wanted = Join(Role.HOST, "h:1", len(agents), 1, "ab" * 32, np.array(agents, np.intp), spec)

    head, found = codec.decode_join(codec.encode_join(STRANGER, wanted))

    assert head == STRANGER
    assert (found.seats, found.agents.tolist(), found.spec_tag) == (len(agents), list(agents), spec)
    assert found.agents.dtype == np.intp


@pytest.mark.parametrize("ticket", [b"", bytes(range(32))])
def test_a_join_may_show_the_ticket_of_a_challenge(ticket: bytes) -> None:
    found = codec.decode_join(codec.encode_join(STRANGER, Join(Role.HOST, "h:1", 0, 1, "ab" * 32, ticket=ticket)))[1]
    assert found.ticket == ticket


def test_a_number_of_seats_may_come_without_agents() -> None:
    found = codec.decode_join(join(seats=5))[1]
    assert (found.seats, found.agents.size, found.spec_tag) == (5, 0, "")


@pytest.mark.parametrize(
    "fields",
    [
        {"agents": ids(1, 2, 3)},
        {"agents": ids(1)},
        {"seats": 0, "agents": ids(1)},
        {"agents": ids(2, 1)},
        {"agents": ids(1, 1)},
        {"agents": ids(1, LIMITS.agents)},
        {"agents": ids(1, 2) + b"\0"},
        {"seats": LIMITS.agents + 1},
        {"spec_tag": "ab" * 31},
        {"spec_tag": "AB" * 32},
        {"role": "spare"},
        {"ticket": bytes(31)},
    ],
)
def test_a_join_that_asks_for_what_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        codec.decode_join(join(**fields))


def test_a_claim_of_more_agents_than_a_game_may_have_is_refused_before_they_are_looked_at() -> None:
    with pytest.raises(Malformed, match="names more agents than the game has"):
        codec.decode_join(join(seats=2, agents=bytes(4 * LIMITS.agents + 4)))


@pytest.mark.parametrize("names", [(), ("adversary",), ("agent-2", "coordinator", "agent-3")])
def test_a_host_says_whom_it_waits_for(names: tuple[str, ...]) -> None:
    assert codec.decode_control_up(codec.encode_control_up(HEAD, Waiting(7, names))) == (HEAD, Waiting(7, names))


@pytest.mark.parametrize(
    "names", [["agent-2", "agent-2"], ["Agent"], [""], ["x" * 65], [f"a{i}" for i in range(LIMITS.hosts + 2)]]
)
def test_a_wait_names_each_process_once_and_no_more_than_there_may_be(names: list[str]) -> None:
    with pytest.raises(Malformed):
        codec.decode_control_up(pb.ControlUp(head=PB_HEAD, waiting=pb.Waiting(names=names)).SerializeToString())


def test_nobody_waits_in_round_0() -> None:
    early = common_pb2.Head(run="run-1", epoch=2, round=0, sender="agent-1")
    with pytest.raises(Malformed):
        codec.decode_control_up(pb.ControlUp(head=early, waiting=pb.Waiting(names=["a"])).SerializeToString())


def test_a_host_may_be_told_that_it_is_a_spare() -> None:
    (part,) = codec.encode_control_down(HEAD, Standby())
    assert codec.ControlDownDecoder().decode(part) == (HEAD, Standby())


def test_a_status_tells_silence_waits_spares_pace_and_troubles() -> None:
    assert codec.decode_status_reply(codec.encode_status_reply(HEAD, STATUS)) == (HEAD, STATUS)


def test_what_troubles_and_waits_say_is_cut_to_what_may_travel() -> None:
    long = replace(STATUS, waiting_for="ü" * LIMITS.text_bytes, troubles=(Incident(1.0, "ü" * LIMITS.text_bytes),))

    found = codec.decode_status_reply(codec.encode_status_reply(HEAD, long))[1]

    assert found.waiting_for == found.troubles[0].what == "ü" * (LIMITS.text_bytes // 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"hosts": [host(role="")]},
        {"hosts": [host(role="operator")]},
        {"hosts": [host(silent=float("nan"))]},
        {"hosts": [host(waits_for=["agent-2", "agent-2"])]},
        {"rounds_per_second": float("inf")},
        {"troubles": [pb.Trouble(ago=1.0, what="x")] * (LIMITS.troubles + 1)},
        {"troubles": [pb.Trouble(ago=float("nan"), what="x")]},
        {"troubles": [pb.Trouble(ago=1.0, what="x" * (LIMITS.text_bytes + 1))]},
    ],
)
def test_a_status_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        codec.decode_status_reply(status(**fields))


def test_every_field_of_a_status_has_a_number_for_absence() -> None:
    found = codec.decode_status_reply(status(hosts=[host()]))[1]
    assert found == model.Status(7, "playing", 9, 0, 0, 0.0, 0.0, (HostStatus("agent-1", "h:1", 0, 0, False),))
