"""The exam as a test of this package; `slaternet adversary-check example-adversary` prints it as a report."""

from slaternet_adversary.testing import AdversaryContract


class TestExampleAdversary(AdversaryContract):
    """Every line of the exam is a test."""

    target = "example-adversary"
