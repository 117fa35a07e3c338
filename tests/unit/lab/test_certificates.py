import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.support.forgery import DAY, Forger, write
from typer.testing import CliRunner

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.network import certificates as tls
from slaternet_lab.cli import app, main
from slaternet_lab.tools.certificates import make

ALWAYS = ["coordinator", "adversary", "operator"]
BOTH = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the certificates of a game of two hosts."""
    folder = tmp_path / "certificates"
    make(folder, ["agent-1", "agent-2"], 30)
    return folder


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / name / "cert.pem").read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is made


def test_everyone_gets_a_folder_that_a_process_can_use(tmp_path: Path) -> None:
    longest = LIMITS.name_bytes * "z"

    made = make(tmp_path / "a" / "b", ["agent-1", "9", longest], 30)

    assert made == ["ca", *ALWAYS, "agent-1", "9", longest]
    assert sorted(contents(tmp_path / "a" / "b")) == sorted(
        ["ca/cert.pem", "ca/key.pem", *(f"{name}/{file}" for name in made[1:] for file in tls.FILES)]
    )
    for name in made[1:]:
        read = tls.read(tmp_path / "a" / "b", name)
        assert (read.name, read.role) == (name, name if name in ALWAYS else "host")


def test_a_certificate_names_an_identity_and_no_address(folder: Path) -> None:
    for name, role in (("agent-1", "host"), ("coordinator", "coordinator"), ("operator", "operator")):
        own = certificate(folder, name)
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert own.subject.rfc4514_string() == f"CN={name}"
        assert {each.value for each in names} == {
            f"{name}.slaternet",
            f"{role}.slaternet",
            f"spiffe://slaternet/{role}/{name}",
        }
        purposes = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(purposes) == (BOTH if name != "operator" else BOTH[:1])


def test_keys_are_new_strong_and_nobody_elses_business(folder: Path) -> None:
    keys = list(folder.rglob("key.pem"))

    assert len({path.read_bytes() for path in keys}) == len(keys) == 6
    for path in keys:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        key = certificate(folder, path.parent.name).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"


def test_a_ca_signs_processes_only_and_outlives_them(folder: Path) -> None:
    authority, own = certificate(folder, "ca"), certificate(folder, "agent-1")

    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(True, 0)
    assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert own.issuer == authority.subject
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days == 30
    assert (authority.not_valid_after_utc - own.not_valid_after_utc).days >= 3649
    assert authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "slaternet CA"


# Making more


def test_a_second_time_nothing_is_made_and_nothing_is_changed(folder: Path) -> None:
    before = contents(folder)

    assert make(folder, ["agent-2", "agent-1"], 30) == []
    assert contents(folder) == before


def test_what_is_missing_is_added_and_the_rest_is_kept(folder: Path) -> None:
    before = contents(folder)
    (folder / "agent-4").mkdir()

    assert make(folder, ["agent-1", "agent-3", "agent-4", "agent-3"], 30) == ["agent-3", "agent-4"]

    after = contents(folder)
    assert after.items() > before.items()
    assert {path.split("/")[0] for path in after.keys() - before.keys()} == {"agent-3", "agent-4"}
    assert tls.read(folder, "agent-3").ca == tls.read(folder, "agent-1").ca


def test_two_who_make_certificates_at_once_agree_on_one_ca(tmp_path: Path) -> None:
    names = [f"agent-{number}" for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for working in [pool.submit(make, tmp_path, names, 30) for _ in range(4)]:
            working.result()

    authority = (tmp_path / "ca" / "cert.pem").read_bytes()
    assert {tls.read(tmp_path, name).ca for name in (*ALWAYS, *names)} == {authority}
    assert {path.name for path in tmp_path.iterdir()} == {"ca", *ALWAYS, *names}


# What is refused, before anything is written


def assert_refused(folder: Path, names: list[str], *words: str, days: int = 30) -> None:
    before = contents(folder)
    with pytest.raises(BadSpec) as raised:
        make(folder, names, days)
    for word in (*words, ";"):
        assert word in str(raised.value)
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["", "Agent-1", "-agent", "agent_1", "agent.1", "../agent", "ä", "a\n", 65 * "a"])
def test_a_name_that_cannot_travel_is_refused(tmp_path: Path, name: str) -> None:
    assert_refused(tmp_path / "new", ["agent-1", name], f"{name!r} cannot be a host's name", "of 1 to 64 bytes")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["coordinator", "adversary", "operator", "host", "ca"])
def test_a_name_that_means_something_else_is_refused(tmp_path: Path, name: str) -> None:
    assert_refused(tmp_path / "new", [name], f"{name} cannot be a host's name")
    assert not (tmp_path / "new").exists()


def test_an_expired_certificate_is_named_with_the_remedy(folder: Path) -> None:
    write(folder, Forger.holding(folder).credentials("agent-2", begins=-2 * DAY, ends=-DAY))

    assert_refused(
        folder, ["agent-2", "agent-3"], f"{folder}/agent-2/cert.pem has expired", "delete the folder agent-2"
    )


def test_all_that_have_expired_are_named_at_once(folder: Path) -> None:
    for name in ("agent-1", "agent-2"):
        write(folder, Forger.holding(folder).credentials(name, begins=-2 * DAY, ends=-DAY))

    assert_refused(folder, ["agent-1", "agent-2"], f"{folder}/agent-1/cert.pem has expired", "the same with agent-2")


def test_deleting_the_folder_renews_a_certificate(folder: Path) -> None:
    before = contents(folder)
    for file in tls.FILES:
        (folder / "agent-1" / file).unlink()

    assert make(folder, ["agent-1"], 30) == ["agent-1"]
    after = contents(folder)
    assert {path for path in before if before[path] != after[path]} == {"agent-1/cert.pem", "agent-1/key.pem"}


def test_a_certificate_of_another_ca_is_named(folder: Path) -> None:
    forger = Forger.posing_as(Forger.holding(folder))
    write(folder, forger.credentials("agent-1"))

    assert_refused(folder, ["agent-1"], f"{folder}/agent-1 was made by another CA than {folder}/ca", "delete")

    write(folder, replace(forger.credentials("agent-1"), ca=Forger.holding(folder).authority))
    assert_refused(folder, ["agent-1"], f"{folder}/agent-1/cert.pem was issued by another CA")


def test_half_an_identity_is_named(folder: Path) -> None:
    (folder / "agent-1" / "key.pem").unlink()
    (folder / "agent-1" / "ca.pem").unlink()

    assert_refused(folder, ["agent-1"], f"{folder}/agent-1 lacks ca.pem and key.pem", f"delete {folder}/agent-1")


def test_certificates_without_their_ca_get_no_second_one(folder: Path) -> None:
    for path in (folder / "ca").iterdir():
        path.unlink()

    assert_refused(folder, ["agent-7"], "is there but not its CA", "where that CA is kept")


@pytest.mark.parametrize("spoil", ["no key", "no certificate", "another's key", "no PEM"])
def test_a_ca_that_cannot_sign_is_named(folder: Path, spoil: str) -> None:
    key, own = folder / "ca" / "key.pem", folder / "ca" / "cert.pem"
    if spoil == "no key":
        key.unlink()
    elif spoil == "no certificate":
        own.unlink()
    elif spoil == "another's key":
        key.write_bytes((folder / "agent-1" / "key.pem").read_bytes())
    else:
        own.write_text("nothing")

    assert_refused(folder, ["agent-7"], f"{folder}/ca does not hold the certificate and the key of a CA")


def test_no_certificate_outlives_its_ca(folder: Path) -> None:
    left = 3650 + 30 - 1
    assert_refused(folder, ["agent-7"], f"{folder}/ca is valid for {left} days more; say --days {left}", days=left + 1)

    assert make(folder, ["agent-7"], left) == ["agent-7"]


def test_an_expired_ca_makes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "true", [], 30)
    forger = Forger.posing_as(Forger.holding(tmp_path / "true"), -2 * DAY, -DAY)
    (tmp_path / "old" / "ca").mkdir(parents=True)
    (tmp_path / "old" / "ca" / "cert.pem").write_bytes(forger.authority)
    (tmp_path / "old" / "ca" / "key.pem").write_bytes(
        forger.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )

    assert_refused(tmp_path / "old", [], f"the CA in {tmp_path}/old/ca has expired", f"delete {tmp_path}/old")


# The command


def slaternet(*arguments: object) -> str:
    outcome = CliRunner().invoke(app, ["certs", *map(str, arguments)], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the one sentence that a refused command leaves on standard error."""
    with pytest.raises(SystemExit) as left:
        main(["certs", *map(str, arguments)])
    said = capsys.readouterr().err
    assert (left.value.code, said.count("\n")) == (2, 1)
    return said


def test_the_command_says_what_was_made_what_goes_where_and_what_stays(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shown = " ".join(slaternet(folder, "--hosts", 4).split())

    assert "made ca, coordinator, adversary, operator, agent-1 to agent-4" in shown
    for name in (*ALWAYS, "agent-1"):
        assert f"{folder / name} " in shown
    assert f"--tls {folder}" in shown
    assert f"{folder}/ca/key.pem stays here" in shown
    assert tls.read(folder, "agent-4").role == "host"


def test_the_command_adds_hosts_and_tells_programs_what_it_did(tmp_path: Path) -> None:
    slaternet(tmp_path, "--hosts", 2)

    assert json.loads(slaternet(tmp_path, "--names", "agent-2, anna,agent-7", "--json")) == {
        "folder": str(tmp_path),
        "made": ["anna", "agent-7"],
        "kept": ["ca", *ALWAYS, "agent-2"],
    }
    shown = " ".join(slaternet(tmp_path, "--names", "agent-1,agent-2,anna,agent-7").split())
    assert "made nothing kept ca, coordinator, adversary, operator, agent-1, agent-2, anna, agent-7" in shown


def test_the_command_makes_what_a_composed_game_needs(tmp_path: Path) -> None:
    slaternet(tmp_path)

    own = certificate(tmp_path, "agent-32")
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days == 365


def test_a_command_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give one of them" in refusal(capsys, tmp_path, "--hosts", 2, "--names", "anna")
    assert "'' cannot be a host's name" in refusal(capsys, tmp_path, "--names", "anna,")
    (tmp_path / "file").touch()
    assert f"cannot use {tmp_path}/file" in refusal(capsys, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
