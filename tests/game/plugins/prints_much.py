"""An adversary and a graph that say more than a pipe holds."""

from slaternet_adversary import History
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_coordinator.graphs.fixed import Ring

MEGABYTE = "so much to say\n" * 70_000


class Adversary(LinearRegression):
    """Prints before its first round."""

    def play(self, round: int, past: History | None = None) -> Functions:
        if round == 1:
            print(MEGABYTE)
        return super().play(round, past)


class Graph(Ring):
    """Prints when it is made, which is before the coordinator listens."""

    def __init__(self, agents: int, seed: int) -> None:
        super().__init__(agents, seed)
        print(MEGABYTE)
