"""What gRPC says of a connection that does not come about, or breaks, becomes a reason that an operator understands."""

import grpc
import pytest

from slaternet.errors import OverBudget, SlaternetError, Unreachable
from slaternet.network.grpc_errors import error_of

NOWHERE = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.9:7000: "
# as grpcio says it, seen on the way to a host that was cut off, stopped or killed
SAID = {
    "DNS resolution failed for nowhere.invalid:7000: Domain name not found": "its name cannot be resolved",
    f"{NOWHERE}Failed to connect to remote host: connect: Connection refused (111)": "connection refused",
    f"{NOWHERE}Failed to connect to remote host: Timeout occurred: FD Shutdown (connect() timed out)": "timed out",
    f"{NOWHERE}Failed to connect to remote host: getsockopt(SO_ERROR): Connection reset by peer (104)": "timed out",
    f"{NOWHERE}tcp handshaker shutdown": "timed out",
    f"{NOWHERE}Socket closed": "it closed the connection",
    "Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 79)": (
        "it is no process of a game"
    ),
    "Stream removed (recvmsg:Connection timed out)": "timed out",
    "Stream removed (Secure read failed (recvmsg:Connection timed out))": "timed out",
    "Stream removed (Secure read failed (recvmsg:Connection reset by peer))": "the connection broke off",
    "Stream removed (Secure read failed (Socket closed))": "the connection broke off",
}


@pytest.mark.parametrize(("said", "reason"), SAID.items())
def test_a_lost_connection_is_told_with_address_and_reason(said: str, reason: str) -> None:
    error = error_of(grpc.StatusCode.UNAVAILABLE, said, (), "10.0.0.9:7000")

    assert isinstance(error, Unreachable)
    assert str(error).startswith(f"10.0.0.9:7000 does not serve us ({reason}); ")


def test_a_call_that_nobody_answers_in_time_has_timed_out() -> None:
    error = error_of(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", (), "10.0.0.9:7000")

    assert isinstance(error, Unreachable)
    assert str(error).startswith("10.0.0.9:7000 does not serve us (timed out); ")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("CLIENT: Received message larger than max (1048577 vs. 1048576)", OverBudget),
        ("received metadata size exceeds hard limit (20066 vs. 8192)", OverBudget),
        ("Too many pending requests for this server", Unreachable),
        ("too_many_pings", Unreachable),
    ],
)
def test_what_is_too_large_stays_so_and_who_finds_no_room_may_try_again(said: str, kind: type[SlaternetError]) -> None:
    assert type(error_of(grpc.StatusCode.RESOURCE_EXHAUSTED, said, (), "10.0.0.9:7000")) is kind
