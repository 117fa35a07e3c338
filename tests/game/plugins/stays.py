"""The paper's adversary, in a process that does not end when it should."""

import atexit
import threading

from slaternet_adversary import History
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression


class Stays(LinearRegression):
    """Keeps the process that plays it from ending."""

    def play(self, round: int, past: History | None = None) -> Functions:
        if round == 1:
            atexit.register(threading.Event().wait)
        return super().play(round, past)
