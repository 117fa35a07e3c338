"""Algorithms, one module per paper, and the names that the author of an algorithm imports."""

from slaternet_agent.algorithms.base import (
    Algorithm,
    AlgorithmGame,
    Decision,
    Feedback,
    Gossip,
    Schedule,
    ValueAndGradient,
    Values,
)

__all__ = ["Algorithm", "AlgorithmGame", "Decision", "Feedback", "Gossip", "Schedule", "ValueAndGradient", "Values"]
