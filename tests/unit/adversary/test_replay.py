import contextlib
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slaternet.numerics.sets import Box
from slaternet_adversary import CannotPlay, Game
from slaternet_adversary.builtin import trace
from slaternet_adversary.builtin.forms import Functions, Quadratics, Separable
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.builtin.replay import Replay

T, N, P, ROWS, M = 5, 4, 3, 2, 1
AGENTS = np.arange(N)
GAME = Game(N, P, 1, Box(P, -5, 5))
AT = np.random.default_rng(1).uniform(-5, 5, (N, 2, P))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, shape)


def arrays(**changed: Any) -> dict[str, Any]:
    return {"matrix": numbers(T, N, ROWS + M, P), "offset": numbers(T, N, ROWS + M), "rows": ROWS} | changed


def separable(**changed: Any) -> dict[str, Any]:
    constraints = {"matrix": numbers(T, N, M, P), "offset": numbers(T, N, M), "rows": 0}
    losses = {"curvature": numbers(T, N, P), "slope": numbers(T, N, P), "constant": numbers(T, N)}
    return constraints | losses | changed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.npz"
    np.savez(path, **arrays())
    return path


def assert_alike(one: Functions, other: Functions) -> None:
    """Require the same bits of everything an agent can be told."""
    for method in ("loss", "constraint", "loss_gradient", "constraint_gradient"):
        assert getattr(one, method)(AGENTS, AT).tobytes() == getattr(other, method)(AGENTS, AT).tobytes()


def test_what_numpy_saved_is_played(file: Path) -> None:
    saved, played = arrays(), Replay(GAME, path=str(file))

    assert (played.constraints, played.rounds) == (M, T)
    for t in range(1, T + 1):
        assert_alike(played.play(t), Functions(saved["matrix"][t - 1], saved["offset"][t - 1], ROWS))


def test_separable_losses_are_played(file: Path) -> None:
    saved = separable()
    np.savez(file, **saved)

    played = Replay(GAME, path=str(file)).play(2)

    loss = (0.5 * saved["curvature"][1, :, None] * AT**2 + saved["slope"][1, :, None] * AT).sum(-1)
    assert played.loss(AGENTS, AT) == pytest.approx(loss + saved["constant"][1, :, None])
    assert played.constraint(AGENTS, AT) == pytest.approx(
        np.einsum("nmp,nsp->nsm", saved["matrix"][1], AT) - saved["offset"][1, :, None]
    )


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "<f8"])
def test_any_real_type_of_number_is_read(file: Path, dtype: str) -> None:
    saved = arrays()
    saved = {"matrix": (100 * saved["matrix"]).astype(dtype), "offset": (100 * saved["offset"]).astype(dtype)}
    np.savez(file, **saved, rows=np.uint8(ROWS))

    played = Replay(GAME, path=str(file)).play(3)

    assert np.array_equal(played.matrix, saved["matrix"][2].astype(float))
    assert np.array_equal(played.offset, saved["offset"][2].astype(float))


@pytest.mark.parametrize("form", ["least squares", "separable", "quadratic"])
def test_what_is_written_is_played_bit_for_bit(tmp_path: Path, form: str) -> None:
    def original(t: int) -> Functions:
        if form == "least squares":
            return LinearRegression(GAME, rows=ROWS, constraints=M).play(t)
        part = {name: array[t - 1] for name, array in separable(hessian=numbers(T, N, P, P)).items() if name != "rows"}
        if form == "quadratic":
            return Quadratics(part["hessian"], part["slope"], part["constant"], part["matrix"], part["offset"])
        return Separable(part["curvature"], part["slope"], part["constant"], part["matrix"], part["offset"])

    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for path in paths:
        rows = ROWS if form == "least squares" else 0
        trace.write(path, T, rows, (trace.arrays(original(t)) for t in range(1, T + 1)))

    played = Replay(GAME, path=str(paths[0]))
    for t in range(1, T + 1):
        assert type(played.play(t)) is type(original(t))
        assert_alike(played.play(t), original(t))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["one.npz", "two.npz"]


def test_losses_of_any_quadratic_form_are_played(file: Path) -> None:
    saved = separable(hessian=numbers(T, N, P, P))
    del saved["curvature"]
    np.savez(file, **saved)

    loss = Replay(GAME, path=str(file)).play(2).loss(AGENTS, AT)

    terms = 0.5 * np.einsum("ksp,kpq,ksq->ks", AT, saved["hessian"][1], AT) + np.einsum(
        "ksp,kp->ks", AT, saved["slope"][1]
    )
    np.testing.assert_allclose(loss, terms + saved["constant"][1][:, None], rtol=1e-12)
    np.savez(file, **(saved | {"hessian": numbers(T, N, P, 2)}))
    with pytest.raises(
        CannotPlay, match="holds hessian as 5 x 4 x 3 x 2; beside a matrix of 5 x 4 x 1 x 3 make it 5 x 4 x"
    ):
        Replay(GAME, path=str(file))


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"

    with pytest.raises(ZeroDivisionError):
        trace.write(path, 2, ROWS, ({"matrix": numbers(N, 3, P), "offset": numbers(N, 1 // t)} for t in (1, 0)))

    assert os.listdir(tmp_path) == []


def test_functions_that_only_inherit_the_form_are_not_taken_for_it() -> None:
    class Louder(Functions):
        pass

    assert trace.arrays(Louder(numbers(N, 3, P), numbers(N, 3), ROWS)) == {}


def test_a_longer_game_repeats_the_trace_only_where_it_may(file: Path) -> None:
    once, again = Replay(GAME, path=str(file)), Replay(GAME, path=str(file), repeat=True)

    assert_alike(again.play(T + 2), once.play(2))
    assert again.rounds is None
    with pytest.raises(CannotPlay) as error:
        once.play(T + 1)
    remedy = f"set run.rounds to at most {T} or adversary.options.repeat = true"
    assert str(error.value) == f"adversary.options.path = {file} holds {T} rounds and no round {T + 1}; {remedy}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"rows": ROWS}, "holds no array matrix"),
        (arrays(rows=[1, 2]), "must hold rows, one whole number"),
        (arrays(rows=1.5), "must hold rows, one whole number"),
        (arrays(rows=0), "has rows = 0; give its losses either rows of matrix, or curvature, slope and constant"),
        (arrays(rows=3), "has rows = 3 of 3; leave at least one to constraints"),
        (separable(rows=1), "has rows = 1; give its losses either rows of matrix, or curvature"),
        (separable(slope=numbers(T, N)), "holds slope as 5 x 4; beside a matrix of 5 x 4 x 1 x 3 make it 5 x 4 x 3"),
        (arrays(matrix=numbers(T, N, P)), "holds matrix as 5 x 4 x 3; make it T x n x q x p"),
        (arrays(offset=1.0), "holds offset as a single number; beside a matrix of 5 x 4 x 3 x 3 make it 5 x 4 x 3"),
        (arrays(matrix=np.array([{}])), "holds matrix as object; make it real numbers in C order"),
        (arrays(matrix=numbers(P, 3, N, T).T), "holds matrix as float64; make it real numbers in C order"),
        (arrays(offset=np.full((T, N, 3), 1j)), "holds offset as complex128; make it real numbers in C order"),
    ],
)
def test_a_file_of_another_form_is_named_with_the_remedy(file: Path, content: dict[str, Any], sentence: str) -> None:
    np.savez(file, **content)

    with pytest.raises(CannotPlay) as error:
        Replay(GAME, path=str(file))

    assert str(error.value).startswith(f"adversary.options.path = {file} ")
    assert sentence in str(error.value)


def test_what_cannot_be_read_round_by_round_is_refused(file: Path) -> None:
    np.savez_compressed(file, **arrays())
    with pytest.raises(CannotPlay, match="is compressed, so that no round can be read by itself"):
        Replay(GAME, path=str(file))
    file.write_bytes(b"no archive")
    with pytest.raises(CannotPlay, match=r"is not an \.npz of numbers"):
        Replay(GAME, path=str(file))
    with pytest.raises(CannotPlay, match="No such file or directory; correct the path"):
        Replay(GAME, path=str(file.parent / "nothing.npz"))
    with pytest.raises(CannotPlay, match="Is a directory"):
        Replay(GAME, path=str(file.parent))


def test_a_header_that_promises_more_than_the_file_holds_allocates_nothing(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive, archive.open("rows.npy", "w") as member:
        np.lib.format.write_array_header_1_0(
            member, {"descr": "<f8", "fortran_order": False, "shape": (1 << 20, 1 << 20)}
        )

    with pytest.raises(CannotPlay, match="holds rows with more or fewer numbers than it says"):
        Replay(GAME, path=str(file))


@pytest.mark.parametrize("cut", range(0, 1000, 37))
def test_a_file_cut_short_is_refused_in_a_sentence(file: Path, cut: int) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut] if cut else whole[64:])

    with pytest.raises(CannotPlay):
        Replay(GAME, path=str(file))


@given(damage=st.dictionaries(st.integers(0, 700), st.integers(0, 255), min_size=1, max_size=4))
@example(damage={134: ord("(")})  # a bracket that is never closed, in the header of an array
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_played_or_refused_in_a_sentence(file: Path, damage: dict[int, int]) -> None:
    damaged = bytearray(file.read_bytes())
    for place, byte in damage.items():
        damaged[-place if place % 2 else place] = byte  # near either end: headers, and the directory
    path = file.with_name("damaged.npz")
    path.write_bytes(damaged)

    with contextlib.suppress(CannotPlay):
        Replay(GAME, path=str(path)).play(1)


def test_a_number_that_is_not_finite_is_named_when_its_round_comes(file: Path) -> None:
    saved = arrays()
    saved["matrix"][2, 3, 0, 1] = np.nan
    np.savez(file, **saved)
    played = Replay(GAME, path=str(file))
    played.play(2)

    with pytest.raises(CannotPlay, match=r"holds no finite number at matrix\[2, 3, 0, 1\]; correct it"):
        played.play(3)


def test_losses_that_are_not_convex_are_refused(file: Path) -> None:
    np.savez(file, **separable(curvature=-numbers(T, N, P)))

    with pytest.raises(CannotPlay, match="has a curvature below 0 in round 1; make its losses convex"):
        Replay(GAME, path=str(file)).play(1)


def test_a_file_that_changes_during_the_game_is_noticed(file: Path) -> None:
    played = Replay(GAME, path=str(file))
    played.play(1)
    with file.open("ab") as end:
        end.write(b"more")

    with pytest.raises(CannotPlay, match="has changed since it was opened"):
        played.play(2)


@pytest.mark.parametrize(
    ("game", "options", "sentence"),
    [
        (Game(9, P, 1, Box(P, -1, 1)), {}, "is of a game with run.agents = 4; set that, not 9"),
        (Game(N, 2, 1, Box(2, -1, 1)), {}, "is of a game with run.dimension = 3; set that, not 2"),
        (GAME, {"path": 3}, "adversary.options.path must be text in quotes, not 3"),
        (GAME, {"repeat": "yes"}, "adversary.options.repeat must be true or false, not 'yes'"),
    ],
)
def test_a_game_that_the_trace_is_not_of_is_refused(
    file: Path, game: Game, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CannotPlay, match=sentence.replace(".", r"\.")):
        Replay(game, **({"path": str(file)} | options))
