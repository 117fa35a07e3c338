import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
import structlog
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import (
    DNSName,
    GeneralName,
    RFC822Name,
    UniformResourceIdentifier,
    load_pem_x509_certificate,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.support.forgery import DAY, Forger, write

from slaternet.errors import BadSpec, Unknown
from slaternet.model import Role
from slaternet.network import certificates as tls
from slaternet.network.certificates import Caller, CertificateRole, Credentials
from slaternet_lab.tools.certificates import make

LONGEST = 64 * "a"
ASK = "/test/Ask"

Answers = list[str]
Context = grpc.aio.ServicerContext[bytes, bytes]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, ["agent-1", "agent-2", LONGEST], 1)
    return folder


@pytest.fixture(scope="module")
def forger(certificates: Path) -> Forger:
    return Forger.holding(certificates)


@pytest.fixture
def copy(certificates: Path, tmp_path: Path) -> Path:
    """Return a folder in which agent-1 may be spoilt."""
    shutil.copytree(certificates / "agent-1", tmp_path / "agent-1")
    return tmp_path


# A server that says who calls


@asynccontextmanager
async def serving(credentials: Credentials | None) -> AsyncIterator[tuple[str, Answers]]:
    """Serve one method, and yield the address with what has been answered there."""
    answers: Answers = []

    async def ask(data: bytes, context: Context) -> bytes:
        try:
            caller = tls.caller_of(context.auth_context())
        except Unknown as error:
            answers.append(f"Unknown: {error}")
        else:
            answers.append(f"{caller.role} {caller.name}" if caller else "nobody")
        return answers[-1].encode()

    server = grpc.aio.server()
    method: Any = grpc.unary_unary_rpc_method_handler(ask)  # the type is generic for mypy only
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"Ask": method}),))
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials.server())
    await server.start()
    try:
        yield f"127.0.0.1:{port}", answers
    finally:
        await server.stop(None)


async def ask(address: str, own: grpc.ChannelCredentials | None, name: str = "coordinator") -> str:
    """Ask the process of that name who it takes us for."""
    options = [("grpc.ssl_target_name_override", tls.identity_of(name))]
    channel = grpc.aio.secure_channel(address, own, options) if own else grpc.aio.insecure_channel(address)
    async with channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ASK)
        return (await method(b"", timeout=10.0)).decode()


async def assert_refused(address: str, own: grpc.ChannelCredentials | None, name: str = "coordinator") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await ask(address, own, name)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_names_every_caller_by_its_certificate(certificates: Path) -> None:
    callers = ("coordinator", "adversary", "operator", "agent-1", "agent-2", LONGEST)
    async with serving(tls.read(certificates, "coordinator")) as (address, _):
        answers = [await ask(address, tls.read(certificates, each).channel()) for each in callers]

    offices = ("coordinator", "adversary", "operator", "host", "host", "host")
    assert answers == [f"{office} {name}" for office, name in zip(offices, callers, strict=True)]


async def test_every_process_but_the_operator_serves_under_its_own_name(certificates: Path) -> None:
    own = tls.read(certificates, "agent-1").channel()
    for name in ("coordinator", "adversary", "agent-2", LONGEST):
        async with serving(tls.read(certificates, name)) as (address, _):
            assert await ask(address, own, name) == "host agent-1"

    async with serving(tls.read(certificates, "operator")) as (address, answers):
        await assert_refused(address, own, "operator")
    assert answers == []


async def test_a_client_talks_to_nobody_but_the_one_it_dials(certificates: Path) -> None:
    async with serving(tls.read(certificates, "agent-2")) as (address, answers):
        await assert_refused(address, tls.read(certificates, "agent-1").channel(), "adversary")

    assert answers == []


@pytest.mark.parametrize(
    "kind", ["forged CA", "expired", "not yet valid", "for servers only", "another's key", "none", "plaintext"]
)
async def test_nobody_gets_in_without_a_valid_certificate_of_the_ca(
    certificates: Path, forger: Forger, kind: str
) -> None:
    true = tls.read(certificates, "agent-1")
    shown: dict[str, grpc.ChannelCredentials | None] = {
        "forged CA": replace(Forger.posing_as(forger).credentials("agent-1"), ca=true.ca).channel(),
        "expired": forger.credentials("agent-1", begins=-2 * DAY, ends=-DAY).channel(),
        "not yet valid": forger.credentials("agent-1", begins=DAY, ends=2 * DAY).channel(),
        "for servers only": forger.credentials("agent-1", purposes=[ExtendedKeyUsageOID.SERVER_AUTH]).channel(),
        "another's key": replace(true, key=tls.read(certificates, "agent-2").key).channel(),
        "none": grpc.ssl_channel_credentials(true.ca),
        "plaintext": None,
    }
    async with serving(tls.read(certificates, "coordinator")) as (address, answers):
        await assert_refused(address, shown[kind])
        assert answers == []
        # the same call with what was spoilt made good, so that nothing else was in the way
        assert await ask(address, forger.credentials("agent-1").channel()) == "host agent-1"


def uris(*texts: str) -> list[GeneralName]:
    return [UniformResourceIdentifier(text) for text in texts]


@pytest.mark.parametrize(
    "names",
    [
        [],
        [DNSName("agent-1.slaternet")],
        [DNSName("spiffe://slaternet/host/agent-1")],
        [RFC822Name("spiffe://slaternet/host/agent-1")],
        uris("spiffe://slaternet/host/agent-1", "spiffe://slaternet/operator/operator"),
        uris("spiffe://slaternet/host/agent-1", "https://example.org/"),
        uris("spiffe://slaternet/king/agent-1"),
        uris("spiffe://slaternet/host/agent-1/"),
        uris("spiffe://slaternet/host/Agent-1"),
        uris("spiffe://slaternet/host/"),
        uris("spiffe://slaternet/host/a" + LONGEST),
        uris("spiffe://elsewhere/host/agent-1"),
        uris("x-spiffe://slaternet/host/agent-1"),
        uris("spiffe://slaternet/host/agent-1\n"),
    ],
    ids=lambda names: "+".join(f"{each.value!r}"[:50] for each in names) or "none",
)
async def test_a_certificate_that_does_not_name_one_process_is_refused(
    certificates: Path, forger: Forger, names: Sequence[GeneralName]
) -> None:
    async with serving(tls.read(certificates, "coordinator")) as (address, _):
        answer = await ask(address, forger.credentials("agent-1", names=names).channel())

    assert answer.startswith("Unknown: the caller's certificate names no process, or several,")
    assert "slaternet certs" in answer


async def test_a_caller_in_plaintext_is_nobody() -> None:
    async with serving(None) as (address, _):
        assert await ask(address, None) == "nobody"


def test_offices_and_roles_of_the_game_are_the_same_words() -> None:
    assert {Caller(role, "a") for role in Role} < {Caller(office, "a") for office in CertificateRole}


# Reading certificates


def test_credentials_are_read_with_name_and_role_and_show_no_key(certificates: Path) -> None:
    read = tls.read(certificates, "agent-1")

    assert (read.name, read.role) == ("agent-1", "host")
    assert read.key == (certificates / "agent-1" / "key.pem").read_bytes()
    assert "PRIVATE" not in repr(read)
    assert repr(read) == str(read)


def assert_flaw(folder: Path, file: str, *words: str) -> None:
    with pytest.raises(BadSpec) as raised:
        tls.read(folder, "agent-1")
    sentence = str(raised.value)
    assert sentence.startswith(f"{folder / 'agent-1' / file} ")
    for word in (*words, "; "):
        assert word in sentence


@pytest.mark.parametrize("file", tls.FILES)
def test_a_missing_file_is_named_with_the_remedy(copy: Path, file: str) -> None:
    (copy / "agent-1" / file).unlink()

    with pytest.raises(BadSpec, match="slaternet certs") as raised:
        tls.read(copy, "agent-1")
    assert [each for each in tls.FILES if each in str(raised.value)] == [file]


@pytest.mark.parametrize("file", tls.FILES)
def test_a_file_that_is_none_of_its_kind_is_named(copy: Path, file: str) -> None:
    (copy / "agent-1" / file).write_text("-----BEGIN NOTHING-----")

    assert_flaw(copy, file, "is no ", "PEM", "slaternet certs")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Give up the rights of root, who may read everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_may_not_be_read_is_named(copy: Path) -> None:
    (copy / "agent-1" / "key.pem").chmod(0)
    with as_nobody(), pytest.raises(BadSpec, match=f"{copy}/agent-1/.*.pem cannot be read: Permission denied; "):
        tls.read(copy, "agent-1")


def test_a_folder_in_the_place_of_a_file_is_named(copy: Path) -> None:
    (copy / "agent-1" / "key.pem").unlink()
    (copy / "agent-1" / "key.pem").mkdir()

    assert_flaw(copy, "key.pem", "cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("part", "odd", "file"),
    [
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07", "cert.pem"),  # version 8
        (b"\x2a\x86\x48\xce\x3d\x03\x01\x07", b"\x2a\x86\x48\xce\x3d\x03\x01\x05", "key.pem"),  # another curve
    ],
    ids=["version", "curve"],
)
def test_a_certificate_of_a_kind_unknown_here_makes_a_sentence_too(
    copy: Path, part: bytes, odd: bytes, file: str
) -> None:
    path = copy / "agent-1" / "cert.pem"
    der = ssl.PEM_cert_to_DER_cert(path.read_text())
    assert der.count(part) == 1
    path.write_text(ssl.DER_cert_to_PEM_cert(der.replace(part, odd)))

    assert_flaw(copy, file, "slaternet certs")


def test_an_encrypted_key_is_refused(copy: Path) -> None:
    path = copy / "agent-1" / "key.pem"
    key = load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))

    assert_flaw(copy, "key.pem", "is no unencrypted private key")


def test_the_key_of_another_is_refused(copy: Path, certificates: Path) -> None:
    shutil.copy(certificates / "agent-2" / "key.pem", copy / "agent-1" / "key.pem")

    assert_flaw(copy, "key.pem", "does not belong to the certificate in cert.pem", "slaternet certs")


def test_a_certificate_of_another_ca_is_refused_though_that_is_called_the_same(copy: Path, forger: Forger) -> None:
    write(copy, replace(Forger.posing_as(forger).credentials("agent-1"), ca=forger.authority))

    assert_flaw(copy, "cert.pem", "was issued by another CA than the one in ca.pem")


def test_a_bundle_with_the_right_ca_will_do(copy: Path, forger: Forger) -> None:
    bundle = Forger.posing_as(forger).authority + forger.authority
    write(copy, replace(forger.credentials("agent-1"), ca=bundle))

    assert tls.read(copy, "agent-1").ca == bundle


@pytest.mark.parametrize(("begins", "verdict"), [(-3, "has expired: "), (2, "is not valid yet ")])
def test_a_certificate_out_of_its_time_is_refused_with_both_dates(
    copy: Path, forger: Forger, begins: int, verdict: str
) -> None:
    credentials = forger.credentials("agent-1", begins=begins * DAY, ends=(begins + 1) * DAY)
    write(copy, credentials)

    certificate = load_pem_x509_certificate(credentials.certificate)
    dates = f"from {certificate.not_valid_before_utc} to {certificate.not_valid_after_utc}".replace("+00:00", " UTC")
    assert_flaw(copy, "cert.pem", verdict, dates, "slaternet certs")


def test_a_certificate_ends_with_its_ca(copy: Path, forger: Forger) -> None:
    write(copy, Forger.posing_as(forger, -2 * DAY, -DAY).credentials("agent-1"))

    assert_flaw(copy, "ca.pem", "has expired: ")


@pytest.mark.parametrize(
    ("names", "held"),
    [
        (None, "is for agent-2.slaternet, spiffe://slaternet/host/agent-2, not for agent-1.slaternet"),
        ([], "is for nobody, not for agent-1.slaternet"),
        ([DNSName("agent-1.slaternet")], "is for agent-1.slaternet, not for agent-1.slaternet and spiffe:"),
        (uris("spiffe://slaternet/host/agent-1"), "is for spiffe://slaternet/host/agent-1, not for agent-1.slaternet"),
        (
            [DNSName("agent-1.slaternet"), *uris("spiffe://slaternet/host/agent-2")],
            "spiffe://slaternet/host/agent-2, not",
        ),
    ],
)
def test_the_certificate_of_another_is_refused(
    copy: Path, forger: Forger, names: Sequence[GeneralName] | None, held: str
) -> None:
    write(copy, replace(forger.credentials("agent-2", names=names), name="agent-1"))

    assert_flaw(copy, "cert.pem", held)


# Waiting for certificates


@contextmanager
def logging() -> Iterator[tuple[list[dict[str, Any]], asyncio.Event]]:
    """Yield what is logged, and an event that is set with each line."""
    lines: list[dict[str, Any]] = []
    said = asyncio.Event()

    def note(_logger: object, _method: str, line: MutableMapping[str, Any]) -> NoReturn:
        lines.append(dict(line))
        said.set()
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[note])
    try:
        yield lines, said
    finally:
        structlog.configure(**before)


async def test_a_process_waits_for_its_certificate_says_so_once_and_goes_on(certificates: Path, tmp_path: Path) -> None:
    with logging() as (lines, said):
        loading = asyncio.create_task(tls.load(tmp_path, "agent-1"))
        await asyncio.wait_for(said.wait(), 10.0)
        (tmp_path / "agent-1").mkdir()
        (tmp_path / "agent-1" / "cert.pem").touch()  # as a copy begins
        shutil.copytree(certificates / "agent-1", tmp_path / "agent-1", dirs_exist_ok=True)
        loaded = await asyncio.wait_for(loading, 10.0)

    assert loaded == tls.read(certificates, "agent-1")
    (line,) = lines
    assert line["event"] == "waiting for certificates"
    assert line["missing"] == ", ".join(str(tmp_path / "agent-1" / file) for file in tls.FILES)
    assert "slaternet certs" in line["remedy"]


async def test_a_process_with_its_certificate_in_place_neither_waits_nor_speaks(certificates: Path) -> None:
    with logging() as (lines, _):
        assert await tls.load(certificates, "agent-1") == tls.read(certificates, "agent-1")
    assert lines == []


async def test_what_will_never_do_is_not_waited_for(copy: Path, forger: Forger) -> None:
    write(copy, forger.credentials("agent-1", begins=-2 * DAY, ends=-DAY))

    with pytest.raises(BadSpec, match="has expired"):
        await tls.load(copy, "agent-1")


# Whose certificate an operator shows


def test_an_operator_asks_under_its_own_name_or_as_the_first_there_is(certificates: Path, copy: Path) -> None:
    (copy / "ca").mkdir()
    (copy / ".agent-0-half").mkdir()
    (copy / "agent-0").touch()

    assert tls.operator_of(certificates) == "operator"
    assert tls.operator_of(copy) == "agent-1"


def test_a_folder_without_identities_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    (tmp_path / "file").touch()

    for folder in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(BadSpec, match=f"--tls {folder} holds no identity; .*slaternet certs"):
            tls.operator_of(folder)
