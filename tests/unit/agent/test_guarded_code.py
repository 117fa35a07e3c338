"""A code that fails in a game is told as a code, with its name, the method, the round and the agents."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.agent_games import made

from slaternet.errors import Malformed, PluginFailed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet.numerics.sets import Box
from slaternet.spec import GossipSection
from slaternet_agent.algorithms import AlgorithmGame
from slaternet_agent.code_registry import build_code
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.exact import Exact
from slaternet_agent.engine.public_copies import PublicCopies
from slaternet_agent.shell.guarded_code import GuardedCode

GAME = AlgorithmGame(agents=6, dimension=3, constraints=1, rounds=None, seed=1, set=Box(3, -5, 5))
AGENTS = np.array([1, 2, 4])
ROWS = np.array([[1.0, 2.0, 3.0], [1.0, 2e5, 3.0], [0.0, 0.0, 1.0]])


class Faulty(Code):
    """Float64 as it is, but for one method that a test puts in."""

    def __init__(
        self,
        encode: Callable[[Symbols], object] = lambda symbols: symbols,
        decode: Callable[[Array], object] = lambda rows: rows,
    ) -> None:
        super().__init__(GAME, 3)
        self.layout = Layout("own", numbers=3, bits=64)
        self._exact, self._encode, self._decode = Exact(GAME, 3), encode, decode

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        return self._encode(self._exact.encode(vectors, agents, t))  # type: ignore[return-value]

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        return self._decode(self._exact.decode(symbols, agents, t))  # type: ignore[return-value]


def raising(error: Exception) -> Callable[[object], object]:
    """Return what raises an error."""

    def raises(_: object) -> object:
        raise error

    return raises


def offered(code: Code) -> None:
    """Let a host offer rows in round 7."""
    section = GossipSection(code="own", difference=False, step=1.0)
    rule = PublicCopies(GuardedCode(code, 3), section, made("zhang2024", GAME), GAME.set)
    rule.offer(ROWS, np.zeros((3, 0)), AGENTS, 7)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (Faulty(encode=raising(KeyError("oops"))), "encode of round 7 for agents 1, 2, 4 raised KeyError"),
        (Faulty(encode=raising(Malformed("oops"))), "encode of round 7 for agents 1, 2, 4 raised Malformed"),
        (Faulty(decode=raising(IndexError("oops"))), "decode of round 7 for agents 1, 2, 4 raised IndexError"),
        (Faulty(decode=raising(Malformed("oops"))), "decode of round 7 refuses what encode has made"),
        (Faulty(encode=lambda symbols: None), "encode of round 7 for agents 1, 2, 4 returns a NoneType"),
        (
            Faulty(encode=lambda symbols: Symbols.of_numbers(symbols.numbers[1:])),
            "encode of round 7 for agents 1, 2, 4 returns scales as float32 of shape (2, 0)",
        ),
        (
            Faulty(decode=lambda rows: rows[:, :1]),
            "decode of round 7 for agents 1, 2, 4 returns float64 of shape (3, 1), not float64 of shape (3, 3)",
        ),
        (Faulty(decode=lambda rows: rows.tolist()), "decode of round 7 for agents 1, 2, 4 returns list"),
        (Faulty(decode=lambda rows: rows / 0.0), "decode of round 7 refuses what encode has made"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_a_code_does_wrong_is_said_in_its_name(code: Code, said: str) -> None:
    with pytest.raises(PluginFailed) as failed:
        offered(code)

    assert str(failed.value).startswith(f"the gossip code own failed: {said}")


def test_rows_too_large_for_a_code_are_said_with_their_agents_and_a_remedy() -> None:
    code = build_code(GossipSection(code="float16", difference=False), GAME, 3)

    with pytest.raises(PluginFailed, match="encode of round 7 for agent 2 raised ValueError: a row has a") as failed:
        GuardedCode(code, 3).encode(ROWS, AGENTS, 7)

    assert "the gossip code float16 failed" in str(failed.value)
    assert str(failed.value).endswith("; choose a code that takes such rows, or numbers with which they stay smaller")


def test_what_a_peer_has_sent_is_refused_and_is_no_failure_of_the_code() -> None:
    code = GuardedCode(Faulty(decode=lambda rows: rows * np.inf), 3)

    with pytest.raises(Malformed, match="finite"):
        code.decode(code.encode(ROWS[:1], AGENTS[:1], 7), AGENTS[:1], 7)
