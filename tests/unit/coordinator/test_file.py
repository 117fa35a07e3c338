import hashlib
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs.assumption4 import window
from slaternet_coordinator.graphs.base import Graph, stack
from slaternet_coordinator.graphs.directed import DirectedPermutations
from slaternet_coordinator.graphs.erdos_renyi import Paper
from slaternet_coordinator.registry import build, digest

SWAP = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
SHIFT = np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])


def built(path: Path, agents: int, **numbers: object) -> Graph:
    return build(GraphSection.model_validate({"name": "file", "path": str(path), **numbers}), agents, seed=1)


def listed(folder: Path, text: str, agents: int = 3, **numbers: object) -> Graph:
    path = folder / "edges.csv"
    path.write_text(text, encoding="utf-8")
    return built(path, agents, **numbers)


def archived(folder: Path, w: Array, agents: int = 3, **numbers: object) -> Graph:
    path = folder / "W.npz"
    np.savez(path, W=w)
    return built(path, agents, **numbers)


@pytest.mark.parametrize(("graph", "directed"), [(Paper(9, 3), False), (DirectedPermutations(9, 3), True)])
def test_an_archive_gives_its_rounds_to_the_bit_and_begins_again(
    graph: Paper | DirectedPermutations, directed: bool, tmp_path: Path
) -> None:
    w = np.stack([graph.matrix(t).dense() for t in range(1, 6)])
    file = archived(tmp_path, w, 9)

    assert file.directed == directed
    for t in (1, 4, 5, 6, 13):
        assert file.matrix(t).dense().tobytes() == w[(t - 1) % 5].tobytes()
    together, apart = file.matrices(3, 9), stack([file.matrix(t) for t in range(3, 12)])
    assert together.dense().tobytes() == apart.dense().tobytes()


def test_one_directed_round_makes_a_file_directed(tmp_path: Path) -> None:
    assert archived(tmp_path, np.stack([SWAP, SHIFT])).directed
    assert not archived(tmp_path, np.stack([SWAP, np.eye(3)])).directed


def test_whole_numbers_are_weights_too(tmp_path: Path) -> None:
    assert archived(tmp_path, np.eye(3, dtype=np.int32)[None]).matrix(2).dense().tolist() == np.eye(3).tolist()


def test_a_list_of_edges_is_weighed_and_rounds_without_edges_are_silent(tmp_path: Path) -> None:
    graph = listed(tmp_path, "round,i,j\n1,0,1\n# a comment\n3,2,1\n3,0,1  # both ways\n\n")

    assert not graph.directed
    assert graph.matrix(1).dense().tolist() == SWAP.tolist()
    assert graph.matrix(2).dense().tolist() == np.eye(3).tolist()
    third = 1 / 3
    path = np.array([[2 * third, third, 0], [third, third, third], [0, third, 2 * third]])
    assert graph.matrix(3).dense() == pytest.approx(path)
    assert graph.matrix(4).dense().tolist() == SWAP.tolist()
    assert window(graph, 12) == 3


def test_blanks_part_fields_and_uniform_weights_can_be_chosen(tmp_path: Path) -> None:
    graph = listed(tmp_path, "1 0 1\n1 1 0\n", weights="uniform")

    assert graph.matrix(1).dense() == pytest.approx(np.array([[2, 1, 0], [1, 2, 0], [0, 0, 3]]) / 3)


def test_a_list_may_give_the_weights_and_the_rest_stays_with_the_agent(tmp_path: Path) -> None:
    graph = listed(tmp_path, "round i j weight\n1 0 1 0.25\n1 2 1 0.5\n1 1 2 0.5\n")

    assert graph.matrix(1).dense().tolist() == [[0.75, 0.25, 0], [0.25, 0.25, 0.5], [0, 0.5, 0.5]]


def test_a_directed_list_says_who_hears_whom(tmp_path: Path) -> None:
    plain = listed(tmp_path, "1 0 2\n1 1 0\n1 2 1\n", directed=True)
    uniform = listed(tmp_path, "1 0 2\n1 1 0\n1 2 1\n", directed=True, weights="uniform")
    weighted = listed(tmp_path, "1 0 2 0.125\n1 1 0 0.125\n1 2 1 0.125\n", directed=True)

    assert plain.directed
    assert plain.matrix(1).dense().tolist() == SHIFT.tolist()
    assert uniform.matrix(1).dense()[0] == pytest.approx([2 / 3, 0, 1 / 3])
    assert weighted.matrix(1).dense()[0].tolist() == [0.875, 0, 0.125]


def test_all_edges_of_a_directed_round_weigh_the_same_and_rounds_differ(tmp_path: Path) -> None:
    ring, chord = "1 0 2\n1 1 0\n1 2 1\n", "2 0 1\n2 1 0\n2 1 2\n2 2 1\n"
    graph = listed(tmp_path, ring + chord, directed=True)

    assert graph.matrix(1).dense().tolist() == SHIFT.tolist()
    assert graph.matrix(2).dense() == pytest.approx(np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3)


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("1 0 1\n")
    section = GraphSection.model_validate({"name": "file", "path": str(path)})

    assert digest(section) == hashlib.sha256(b"1 0 1\n").hexdigest()
    assert build(section, 2, 1).matrix(1).dense().tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("text", "numbers", "sentence"),
    [
        (
            "1 0 2\n1 1 0\n1 2 1\n2 0 1\n",
            {"directed": True},
            " is not balanced, because in round 2 agent 0 receives with weight 0.5 and sends with 0; make the "
            "two equal for every agent, or set graph.directed = false",
        ),
        (
            "1 0 1 .5\n1 1 0 .25\n",
            {"directed": True},
            " is not balanced, because in round 1 agent 0 receives with weight 0.5 and sends with 0.25; make "
            "the two equal for every agent, or set graph.directed = false",
        ),
        (
            "1 0 1 .5\n1 1 2 .5\n",
            {},
            " leaves an agent no weight on itself, because in round 1 agent 1 receives with weight 1; keep that "
            "below 1",
        ),
        ("", {}, " holds no edge; write lines of round, i, j and perhaps a weight"),
        ("round,i,j\n", {}, " holds no edge; write lines of round, i, j and perhaps a weight"),
        ("1 0 1\n1 0\n", {}, ", line 2, does not begin with three whole numbers; write round, i, j"),
        ("1 0 1\none 0 1\n", {}, ", line 2, does not begin with three whole numbers; write round, i, j"),
        ("1 0 3\n", {}, ", line 1, names agents 0 and 3; agents are numbered from 0 to 2"),
        ("1 -1 2\n", {}, ", line 1, names agents -1 and 2; agents are numbered from 0 to 2"),
        (
            "1 1 1\n",
            {},
            ", line 1, joins agent 1 with itself; remove it, an agent's own weight is what its edges leave",
        ),
        ("0 0 1\n", {}, ", line 1, names round 0; rounds are numbered from 1 on, at most to 262144"),
        ("9" * 9 + " 0 1\n", {}, ", line 1, names round 999999999; rounds are numbered from 1 on, at most to 262144"),
        ("1 0 1 2\n", {}, ", line 1, says 2 after round, i, j; write one weight between 0 and 1, or none"),
        ("1 0 1 nan\n", {}, ", line 1, says nan after round, i, j; write one weight between 0 and 1, or none"),
        ("1 0 1 w\n", {}, ", line 1, says w after round, i, j; write one weight between 0 and 1, or none"),
        ("1 0 1 .1 .1\n", {}, ", line 1, says .1 .1 after round, i, j; write one weight between 0 and 1, or none"),
        (
            "1 0 1\n1 1 2 .5\n",
            {},
            ", line 2, differs from the lines before it; give a weight on every line or on none",
        ),
        ("1 0 1 .5\n1 1 0 .25\n", {}, ", line 2, gives the edge of line 1 another weight; remove one of the two"),
    ],
)
def test_a_list_that_makes_no_graph_names_its_line(
    text: str, numbers: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSpec) as error:
        listed(tmp_path, text, **numbers)

    assert str(error.value) == f"graph.path = {tmp_path / 'edges.csv'}{sentence}"


@pytest.mark.parametrize(
    ("w", "sentence"),
    [
        (np.eye(3), " holds W of float64, 3 x 3; make it real, rounds x 3 x 3"),
        (np.eye(4)[None], " holds W of float64, 1 x 4 x 4; make it real, rounds x 3 x 3"),
        (np.zeros((0, 3, 3)), " holds W of float64, 0 x 3 x 3; make it real, rounds x 3 x 3"),
        (1j * np.eye(3)[None], " holds W of complex128, 1 x 3 x 3; make it real, rounds x 3 x 3"),
        (np.array([object()]), " holds W of object, 1; make it real, rounds x 3 x 3"),
        (np.zeros((1, 3, 3)), " gives a weight that is not positive in rounds 1 on; correct the graph's weights"),
        (
            np.stack([SHIFT, SHIFT * 0.5]),
            " gives weights whose row 0 sums to 0.5 in round 2, not 1; correct the graph's weights",
        ),
        (
            np.array([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]),
            " gives weights whose column 0 sums to 0.5 in round 1, not 1; correct the graph's weights",
        ),
        (
            np.array([np.roll(np.eye(3), 1, axis=0)]),
            " gives an agent no weight on itself in rounds 1 on; correct the graph's weights",
        ),
        (
            np.full((1, 3, 3), np.nan),
            " gives a weight that is not positive in rounds 1 on; correct the graph's weights",
        ),
    ],
)
def test_an_archive_that_makes_no_graph_says_what_to_change(w: Array, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as error:
        archived(tmp_path, w)

    assert str(error.value) == f"graph.path = {tmp_path / 'W.npz'}{sentence}"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("absent.csv", None, " cannot be read: No such file or directory; correct the path"),
        ("absent.npz", None, " cannot be read: No such file or directory; correct the path"),
        ("broken.npz", b"no archive", " is not an .npz of numbers; write it with numpy.savez(path, W=W)"),
        ("binary.csv", b"\xff\xfe\x00", " is neither .npz nor text; write lines of round, i, j and perhaps a weight"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BadSpec) as error:
        built(path, 3)

    assert str(error.value) == f"graph.path = {path}{sentence}"


def test_keys_that_a_file_leaves_no_room_for_are_refused(tmp_path: Path) -> None:
    who = f"graph.path = {tmp_path}/"
    np.savez(tmp_path / "V.npz", V=SHIFT)
    with pytest.raises(BadSpec) as weighed:
        listed(tmp_path, "1 0 1 .5\n", weights="uniform")
    with pytest.raises(BadSpec) as directed:
        archived(tmp_path, SHIFT[None], directed=True)
    with pytest.raises(BadSpec) as missing:
        digest(GraphSection(name="file"))
    with pytest.raises(BadSpec) as number:
        build(GraphSection.model_validate({"name": "file", "path": 3}), 3, 1)
    with pytest.raises(BadSpec) as nothing:
        built(tmp_path / "V.npz", 3)

    assert [str(each.value) for each in (weighed, directed, missing, number, nothing)] == [
        f"graph.weights cannot be chosen, because {who}edges.csv gives a weight on every line; remove the key",
        f"graph.directed is for lists of edges, and {who}W.npz says it all in W; remove the key",
        "graph.path is missing; FileGraph needs it",
        "graph.path must be text in quotes, not 3",
        f"{who}V.npz holds no array W; write it with numpy.savez(path, W=W)",
    ]
