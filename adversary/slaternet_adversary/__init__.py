"""The adversary of a game. Authors of plugins import what they need from here."""

TYPE_CHECKING = False  # as in `typing`: nothing is imported before `__main__` has dropped the working directory
if TYPE_CHECKING:
    from slaternet_adversary.api import Adversary, CannotPlay, Game, History, Round

__all__ = ["Adversary", "CannotPlay", "Game", "History", "Round"]


def __getattr__(name: str) -> object:
    from slaternet.facade import lazy

    return lazy(__name__, {"slaternet_adversary.api": " ".join(__all__)})(name)
