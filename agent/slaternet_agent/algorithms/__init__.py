"""Algorithms, one module per paper, and what the author of one imports."""

from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Schedule, Seen, Tangent

__all__ = ["Algorithm", "Decision", "Feedback", "Game", "Gossip", "Schedule", "Seen", "Tangent"]
