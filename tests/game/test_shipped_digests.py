"""Every shipped spec ends in the digest that it has always ended in, in one process and over gRPC."""

import json
from pathlib import Path

import pytest
from tests.game.processes import slaternet

DIGESTS = {
    "data-center": "55e198f22669184be90a206d80a763450b4cf9fe57883c6d9fd0167b353cac7c",
    "economic-dispatch": "92e5170e29aa8fa7d30d24413a76e976a511945aa229ca6acfa107811f237a07",
    "logistic": "4b0adcaa4693e69cec503e138e29f6339593257305c9c9234fac9e91eba5b80b",
    "moving-target": "351d5210503a7601209981e83095a12d7751430ff16cf3eff62a6402a5f7169a",
    "paper": "7e4cc9e301b405e5a6a8329527a578f7b8f9cd360507fbe89f00caf5e92a3bb0",
    "paper-compressed": "68f3c27ff407081a41d2c4e4475fee68aaab3883f5ea1b956ebe2664aca18b19",
    "paper-short": "eb4f7d7d74083acbaff350b66011a18f050676604aec894f5c7c467acc533917",
    "resource-fair": "43e354e66c499bae130b12b0e29bd5905aa4ca85720c8349348d19ab220669fa",
    "theorem1": "431b5ea3a9f2a581e569176f50dd225fb9b525a5281215192f904a6a8802d684",
    "theorem2": "909c218934933febd708bd081064b7c6bbdb5e6bc6f017145a4701071e54e882",
    "theorem3": "2b879699efca82c3087e9783ebd6d6a5e6ec3e43be1ec4326507c60e8a66db42",
    "theorem4": "ca34bf12bc81456d25b1eb614a2da1854e7e24303c5702fedcc329be1227d79c",
}
"""By spec. A change here is a change of the trajectory: it needs a reason in the changelog."""
THEOREMS = {name for name in DIGESTS if name.startswith("theorem")}
"""Played for 8192 rounds."""
QUICK = {"paper", "paper-short"}
"""What `make test` plays over gRPC; `make check` plays all."""


def cases(slow: set[str]) -> list[object]:
    """Return all specs with their digests, some of them marked as slow."""
    marks = [pytest.mark.slow, pytest.mark.timeout(300)]
    return [pytest.param(name, DIGESTS[name], marks=marks if name in slow else [], id=name) for name in DIGESTS]


def digest_of(*arguments: object) -> str:
    """Return the digest that a command prints."""
    outcome = slaternet(*arguments, "--json", seconds=290)
    assert outcome.code == 0, outcome.err
    return str(json.loads(outcome.out)["digest"])


def test_the_table_holds_every_shipped_spec() -> None:
    outcome = slaternet("specs")

    names = {line.split()[0] for line in outcome.out.splitlines() if not line.startswith(" ")}
    assert names == set(DIGESTS), outcome.out


@pytest.mark.parametrize(("name", "expected"), cases(slow=THEOREMS))
def test_a_simulation_ends_in_the_digest_of_the_table(name: str, expected: str, tmp_path: Path) -> None:
    assert digest_of("simulate", name, "--out", tmp_path / "run") == expected


@pytest.mark.parametrize(("name", "expected"), cases(slow=set(DIGESTS) - QUICK))
def test_two_hosts_end_in_the_digest_of_the_table(name: str, expected: str, tmp_path: Path) -> None:
    assert digest_of("run", name, "--hosts", 2, "--out", tmp_path / "run") == expected
