"""Algorithms, one module per paper, and what the author of one imports."""

from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Schedule, Tangent, Values

__all__ = ["Algorithm", "Decision", "Feedback", "Game", "Gossip", "Schedule", "Values", "Tangent"]
