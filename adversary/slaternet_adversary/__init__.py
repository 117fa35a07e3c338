"""The adversary of a game. Authors of plugins import what they need from here."""

from typing import TYPE_CHECKING

from slaternet.facade import lazy

if TYPE_CHECKING:
    from slaternet_adversary.api import Adversary, CannotPlay, Game, History, Round

__all__ = ["Adversary", "CannotPlay", "Game", "History", "Round"]

__getattr__ = lazy(__name__, {"slaternet_adversary.api": " ".join(__all__)})
