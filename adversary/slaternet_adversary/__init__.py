"""The adversary of a game. Authors of plugins import what they need from here."""

from slaternet_adversary.api import Adversary, CannotPlay, Game, History, Round

__all__ = ["Adversary", "CannotPlay", "Game", "History", "Round"]
