import errno
import re
import socket
from dataclasses import replace
from functools import partial

import pytest
import structlog

from slaternet.errors import BadSpec, Unreachable
from slaternet.network.addresses import check_address, check_plaintext, reachable, reserved
from slaternet.network.client import open_channel
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import until_reached

# What may be written


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:7000", "[::1]:7000", "[fe80::1%eth0]:1", "my_service.example-1.org:65535", "localhost:1", "h:00080"],
)
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    check_address(address, what="--coordinator")


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "10.0.0.1:",
        ":7000",
        "",
        "7000",
        "::1:7000",
        "[::1]",
        "[10.0.0.1:7000",
        "10.0.0.1:65536",
        "10.0.0.1:99999",
        "10.0.0.1:-1",
        "10.0.0.1:http",
        "10.0.0.1:0",
        "10.0.0.1:٧٠٠٠",
        "http://10.0.0.1:7000",
        "10.0.0.1:7000/",
        "a b:7000",
        "a\n:7000",
        "unix:/run/socket",
        "ipv4:10.0.0.1:7000,10.0.0.2:7000",
    ],
)
def test_everything_else_is_refused_before_grpc_guesses_what_it_means(address: str) -> None:
    with pytest.raises(BadSpec, match="is no HOST:PORT; write it like") as raised:
        check_address(address, what="--coordinator")
    assert f"--coordinator {address!r} " in str(raised.value)
    with pytest.raises(BadSpec, match="is no HOST:PORT"):
        open_channel(address)


def test_a_free_port_is_one_only_to_listen_on() -> None:
    config = ProcessConfig("a", "10.0.0.1:7000", listen="0.0.0.0:0")
    for wrong in ("advertise", "coordinator", "listen"):
        with pytest.raises(BadSpec, match=f"--{wrong} '10.0.0.2(:0)?' is no HOST:PORT"):
            replace(config, **{wrong: "10.0.0.2" if wrong == "listen" else "10.0.0.2:0"})  # type: ignore[arg-type]


# Where others reach us


async def test_where_a_process_listens_is_where_it_is_reached_unless_it_listens_everywhere() -> None:
    assert await reachable("10.0.0.2:7001", "10.0.0.1:7000") == "10.0.0.2:7001"
    assert await reachable("0.0.0.0:7001", "127.0.0.1:7000") == "127.0.0.1:7001"
    assert await reachable("0.0.0.0:7001", "localhost:7000") in ("127.0.0.1:7001", "[::1]:7001")


async def test_a_coordinator_with_an_address_of_ipv6_alone_is_faced_by_one_of_ipv6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", 7000, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [here])

    assert await reachable("[::]:7001", "coordinator:7000") == "[::1]:7001"


async def test_a_coordinator_whose_name_is_not_known_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    here = (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", 7000))
    answers = [socket.gaierror(socket.EAI_NONAME, "Name or service not known"), [here]]

    def look_up(*_: object, **__: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with structlog.testing.capture_logs() as logged:
        address = await until_reached("later:7000", partial(reachable, "0.0.0.0:7001", "later:7000"))

    assert address == "127.0.0.1:7001"
    reason = "later:7000 does not serve us (its name cannot be resolved); correct the name"
    assert [(each["event"], each["reason"]) for each in logged] == [("waiting for the coordinator", reason)]


async def test_an_address_that_cannot_be_found_out_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    here = (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", 7000))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [here])
    monkeypatch.setattr(socket, "socket", refuse)

    with pytest.raises(Unreachable, match=r"coordinator away:7000 .* \(Network is unreachable\); say with --advertise"):
        await reachable("0.0.0.0:7001", "away:7000")


# Plaintext


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:7000",
        "127.8.9.10:0",
        "localhost:7000",
        "LOCALHOST:7000",
        "[::1]:7000",
        "unix:/tmp/a",
        "unix:///tmp/a",
    ],
)
def test_plaintext_stays_on_this_machine(address: str) -> None:
    check_plaintext(address, insecure=False, what="--listen")


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0:7000",
        "[::]:7000",
        ":7000",
        "10.0.0.1:7000",
        "128.0.0.1:7000",
        "[2001:db8::1]:7000",
        "::1:7000",  # to gRPC an address that ends in 7000
        "[127.0.0.1]:7000",
        "coordinator:7000",
        "localhost.example.org:7000",
        "127.0.0.1.example.org:7000",
        "127.0.0.1:7000@example.org:7000",
        "dns://8.8.8.8/localhost:7000",
        "localhost",
        "",
    ],
)
def test_plaintext_elsewhere_is_refused_unless_it_is_said_aloud(address: str) -> None:
    with pytest.raises(BadSpec) as raised:
        check_plaintext(address, insecure=False, what="--listen")
    for word in (f"--listen {address} ", "--tls DIR", "`slaternet certs DIR`", "--insecure"):
        assert word in str(raised.value)

    check_plaintext(address, insecure=True, what="--listen")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost", "[::1]"])
def test_a_port_that_is_reserved_is_left_to_a_server_and_to_nobody_who_asks_for_any(host: str) -> None:
    with reserved(f"{host}:0") as first, reserved(f"{host}:0") as second:
        assert first != second
        assert first.rpartition(":")[0] == host
        number = int(first.rpartition(":")[2])
        family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
        said = f"cannot listen on {re.escape(first)}; choose a free port"
        # a server binds with SO_REUSEADDR, as gRPC does
        with (
            socket.create_server((host.strip("[]"), number), family=family),
            pytest.raises(BadSpec, match=said),
            reserved(first),
        ):
            raise AssertionError("nobody may have it")


def test_what_goes_wrong_while_a_port_is_reserved_is_not_taken_for_a_port_that_is_taken() -> None:
    with pytest.raises(TimeoutError), reserved("127.0.0.1:0"):
        raise TimeoutError
