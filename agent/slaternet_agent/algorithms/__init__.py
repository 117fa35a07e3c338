"""Algorithms, one module per paper, and what the author of one imports."""

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
