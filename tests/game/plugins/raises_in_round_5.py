"""An adversary that plays four rounds and then fails, with words no agent may hear."""

from slaternet.model import Agents, Array
from slaternet_adversary import History
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression


class WhilePlaying(LinearRegression):
    """Fails when it must fix the functions."""

    def play(self, round: int, past: History | None = None) -> Functions:
        if round == 5:
            raise ArithmeticError("the hidden value is 42.4242")
        return super().play(round, past)


class _Failing(Functions):
    def loss(self, agents: Agents, points: Array) -> Array:
        raise ArithmeticError("the hidden value is 42.4242")


class WhileAnswering(LinearRegression):
    """Fails when it is asked."""

    def play(self, round: int, past: History | None = None) -> Functions:
        functions = super().play(round, past)
        if round < 5:
            return functions
        return _Failing(functions.matrix, functions.offset, functions.a.shape[1])
