import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.limits import LIMITS
from slaternet.numerics.fingerprint import fingerprint
from slaternet.tickets import ticket

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True)
PARTIES = st.tuples(st.binary(min_size=1, max_size=32), NAMES, st.integers(1, 2**62), NAMES)


@given(PARTIES, PARTIES)
def test_a_ticket_belongs_to_one_holder_one_incarnation_and_one_server(
    one: tuple[bytes, str, int, str], other: tuple[bytes, str, int, str]
) -> None:
    assert (ticket(*one) == ticket(*other)) == (one == other)


@given(PARTIES)
def test_a_ticket_has_the_length_the_wire_demands(party: tuple[bytes, str, int, str]) -> None:
    assert len(ticket(*party)) == LIMITS.ticket_bytes


def test_names_cannot_be_shifted_into_one_another() -> None:
    assert ticket(b"s", "a1", 1, "b") != ticket(b"s", "a", 11, "b")
    assert ticket(b"s", "a", 1, "1b") != ticket(b"s", "a", 11, "b")


def test_a_ticket_is_hmac_sha256_as_the_contract_says() -> None:
    # printf 'host-1\0%s\0adversary' 7 | openssl dgst -sha256 -mac HMAC -macopt key:secret
    expected = "74e80b4210fb58e62643b0d282e8656f42ce87470f917e109c212010f46b0167"
    assert ticket(b"secret", "host-1", 7, "adversary").hex() == expected


def test_the_fingerprint_is_64_hexadecimal_digits() -> None:
    assert len(bytes.fromhex(fingerprint())) == 32


@pytest.mark.parametrize(
    "environment", [{}, {"OPENBLAS_CORETYPE": "Nehalem"}, {"OPENBLAS_NUM_THREADS": "2"}, {"PYTHONHASHSEED": "5"}]
)
def test_another_process_has_the_same_fingerprint_whatever_blas_does(environment: dict[str, str]) -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from slaternet.numerics.fingerprint import fingerprint; print(fingerprint())"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == fingerprint()
