"""One line of the report on a spec's assumptions."""

from slaternet_lab.specs.protocol import PAPER, Finding, Verdict

__all__ = ["PAPER", "Finding", "Verdict"]
