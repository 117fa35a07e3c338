import ast
import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest

import slaternet_adversary
from slaternet.errors import BadSpec
from slaternet.numerics.randomness import stream
from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, CannotPlay, Game, History, Round, builtin

GAME = Game(2, 3, 1, Box(3, -1, 1))

OPTIONAL = [
    "loss_gradient",
    "constraint_gradient",
    "network_loss",
    "network_violation",
    "quadratic",
    "linear",
    "scoring",
]
ALSO = {
    "slaternet.fields": {"checked"},
    "slaternet.model": {"Agents", "Array"},
    "slaternet.numerics.randomness": {"block_length", "locate", "streams"},
    "slaternet.numerics.portable": {"exponential", "sigmoid", "softplus"},
    "slaternet.limits": {"LIMITS"},
    "slaternet.numerics.npz": {"Archive", "NUMBERS", "WrongSize", "add_array"},
    "slaternet.numerics.pieces": {"pieces"},
    "slaternet.storage.files": {"opened", "refusing"},
    "slaternet.storage.disk": {"replacing"},
}
"""Beyond their own interface: options compared with their annotations, names of arrays, blocks of rounds, functions
that every machine rounds alike, files and sizes that are checked before they take memory, and work cut into pieces."""


class Still(Adversary):
    constraints = 1

    def play(self, round: int, past: History | None) -> Round:
        raise CannotPlay("adversary.plugin cannot play; choose another")


def parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def imports(path: Path) -> list[tuple[str, str]]:
    """Return (module, name) for everything that a file imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(each.name, "") for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found += [(str(node.module), each.name) for each in node.names]
    return found


def test_authors_find_everything_they_need_in_the_package() -> None:
    assert set(slaternet_adversary.__all__) == {"Adversary", "CannotPlay", "Game", "History", "Round"}


def test_the_methods_that_authors_write_keep_their_arguments() -> None:
    assert parameters(Adversary) == ["game"]
    assert parameters(Adversary.play) == ["self", "round", "past"]
    assert parameters(Round.loss) == ["self", "agents", "points"]
    assert parameters(Round.constraint) == ["self", "agents", "points"]
    assert Adversary.__annotations__.keys() == {"constraints", "history", "rowwise"}


def test_what_authors_are_given_keeps_its_fields() -> None:
    assert [each.name for each in dataclasses.fields(Game)] == ["agents", "dimension", "seed", "set"]
    assert [each.name for each in dataclasses.fields(History)] == ["decisions"]
    assert str(inspect.signature(Game.stream)).startswith("(self, purpose: str, agent: int = 0, block: int = 0)")


def test_the_optional_methods_of_a_round_are_listed_where_authors_read() -> None:
    lines = [line.strip() for line in str(Round.__doc__).splitlines()]

    assert [line.partition("(")[0] for line in lines if "->" in line] == OPTIONAL


def test_an_adversary_must_play() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Adversary(GAME)  # type: ignore[abstract]


def test_an_adversary_is_oblivious_and_evaluated_one_by_one_unless_it_says_otherwise() -> None:
    still = Still(GAME)

    assert (still.history, still.rowwise, still.game.agents) == (0, False, 2)


def test_refusing_a_game_is_the_user_s_to_correct() -> None:
    assert issubclass(CannotPlay, BadSpec)


def test_a_game_s_streams_are_those_of_its_seed() -> None:
    game = Game(2, 3, 11, Box(3, -1, 1))

    assert game.stream("walk", 1, 4).random(3).tobytes() == stream(11, "walk", 1, 4).random(3).tobytes()
    assert History(np.zeros((0, 2, 3))).decisions.shape == (0, 2, 3)


@pytest.mark.parametrize("path", sorted(Path(builtin.__path__[0]).rglob("*.py")), ids=lambda path: path.stem)
def test_built_in_adversaries_use_what_every_author_may_use(path: Path) -> None:
    for module, name in imports(path):
        ours = module.startswith("slaternet")
        own = module.startswith("slaternet_adversary.builtin") or module == "slaternet_adversary.api"
        assert not ours or own or name in ALSO.get(module, ()), f"{path.name} imports {name} of {module}"
