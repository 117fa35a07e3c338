from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from slaternet.errors import BadSpec
from slaternet_lab.comparison.entries import Contestant, read_entries, split
from slaternet_lab.specs.resolve import load

SMALL = ("run.agents=6", "run.rounds=12", "run.dimension=3")
MINE = """
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Mine(Zhang2024):
    def __init__(self, game, schedule, *, strength=1.0):
        super().__init__(game, schedule)
"""


def contestants(*algorithms: str, grid: tuple[str, ...] = (), settings: tuple[str, ...] = ()) -> dict[str, Contestant]:
    field = read_entries(None, algorithms or None, seeds=1, grid=grid, settings=(*SMALL, *settings))
    return {each.label: each for each in field.contestants}


def numbers(contestant: Contestant) -> dict[str, object]:
    return contestant.specs[0].algorithm.numbers


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_without_names_the_papers_four_play_with_the_inputs_of_table_2() -> None:
    found = contestants()

    assert list(found) == ["zhang2024", "yi2023", "yi2024", "zero"]
    assert {label: each.specs[0].algorithm.schedule for label, each in found.items() if label != "zero"} == {
        "zhang2024": "table2",
        "yi2023": "table2",
        "yi2024": "table2",
    }
    assert numbers(found["zhang2024"]) == {"gamma0": 0.15, "delta0": 0.01, "t0": 0}
    assert numbers(found["yi2023"]) == {"delta0": 0.01, "t0": 0}
    assert numbers(found["yi2024"]) == {"gamma0": 0.15, "t0": 0}
    assert numbers(found["zero"]) == {}


def test_each_is_told_what_it_declares() -> None:
    found = contestants()

    assert found["yi2023"].feedback.points == 2
    assert found["yi2024"].feedback.loss_gradient
    assert found["yi2024"].feedback.constraint_gradient
    assert found["yi2024"].specs[0].feedback == found["yi2024"].feedback
    assert found["zero"].feedback.points == 0


def test_what_is_left_out_is_said_once_per_contestant_of_an_item() -> None:
    field = read_entries(None, ["yi2023", "zero"], seeds=1, grid=["graph.rho=0.2,0.3"], settings=SMALL)

    assert len(field.contestants) == 4
    assert field.left_out == {"gamma0": ["yi2023", "zero"], "schedule": ["zero"], "delta0": ["zero"], "t0": ["zero"]}


def test_seeds_are_the_specs_and_the_next_ones() -> None:
    (found,) = read_entries(None, ["zero"], seeds=3, settings=[*SMALL, "run.seed=7"]).contestants

    assert [spec.run.seed for spec in found.specs] == [7, 8, 9]


def test_both_seeds_are_shifted() -> None:
    settings = [*SMALL, "run.seed=7", "adversary.seed=100"]
    (found,) = read_entries(None, ["zero"], seeds=3, settings=settings).contestants

    assert [(spec.run.seed, spec.adversary.seed) for spec in found.specs] == [(7, 100), (8, 101), (9, 102)]


@pytest.mark.parametrize("drawn", [None, 5])
def test_a_seed_that_is_to_be_drawn_is_drawn_once_for_all_contestants(drawn: int | None) -> None:
    settings = [*SMALL, "adversary.seed=random"]
    one, other = read_entries(None, ["zero", "yi2023"], seeds=2, settings=settings, drawn=drawn).contestants

    first, second = (spec.function_seed for spec in one.specs)
    assert second == first + 1
    assert [spec.function_seed for spec in other.specs] == [first, second]
    assert drawn in (None, first)


def test_settings_of_an_item_are_its_own() -> None:
    found = contestants("yi2023", "yi2023+dual_linearised=false+delta0=0.02", "yi2023+graph.rho=0.5")

    assert [numbers(each) for each in found.values()] == [
        {"delta0": 0.01, "t0": 0},
        {"delta0": 0.02, "t0": 0, "dual_linearised": False},
        {"delta0": 0.01, "t0": 0},
    ]
    assert [each.specs[0].graph.numbers["rho"] for each in found.values()] == [0.1, 0.1, 0.5]


def test_numbers_set_for_all_go_to_those_who_take_them() -> None:
    found = contestants("zhang2024", "yi2023", settings=("algorithm.gamma0=0.5", "algorithm.dual_linearised=false"))

    assert numbers(found["zhang2024"]) == {"gamma0": 0.5, "delta0": 0.01, "t0": 0}
    assert numbers(found["yi2023"]) == {"delta0": 0.01, "t0": 0, "dual_linearised": False}


def test_an_item_with_another_schedule_keeps_the_numbers_that_it_takes() -> None:
    found = contestants("zhang2024+schedule=theorem1+c=0.7")

    assert numbers(found["zhang2024+schedule=theorem1+c=0.7"]) == {"gamma0": 0.15, "t0": 0, "c": 0.7}


def test_sequences_given_one_by_one_are_kept_by_whoever_uses_no_others(mine: Path) -> None:
    explicit = (
        "schedule=explicit",
        "gamma0=",
        "delta0=",
        "alpha=[1.0, -1.0]",
        "gamma=1.0",
        "xi=[1.0, -1.0]",
        "delta=1e-3",
    )
    given = tuple(f"algorithm.{setting}" for setting in explicit)

    found = contestants("zhang2024", "mine.py:Mine", "yi2023", settings=given)

    schedules = {label: each.specs[0].algorithm.schedule for label, each in found.items()}
    assert schedules == {"zhang2024": "explicit", "mine.py:Mine": "explicit", "yi2023": "table2"}
    assert numbers(found["mine.py:Mine"])["alpha"] == [1.0, -1.0]


def test_a_specs_own_algorithm_plays_before_the_papers(mine: Path) -> None:
    found = contestants(settings=("algorithm.name=mine.py:Mine",))

    assert list(found) == ["mine.py:Mine", "zhang2024", "yi2023", "yi2024", "zero"]


def test_the_hash_of_replaced_code_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "resolved.toml").write_text(load("paper", SMALL).to_toml())

    with capture_logs() as logs:
        (found,) = read_entries(str(tmp_path / "resolved.toml"), ["yi2024"], seeds=1).contestants

    assert logs == []
    assert found.feedback.loss_gradient


def test_what_a_user_grants_is_granted_to_all_and_what_each_asks_is_still_known() -> None:
    found = contestants("zhang2024", "yi2024", settings=("feedback.points=3",))

    assert [each.specs[0].feedback.points for each in found.values() if each.specs[0].feedback] == [3, 3]
    assert [each.feedback.points for each in found.values()] == [2, 0]


def test_a_grid_multiplies_those_who_take_its_numbers() -> None:
    found = contestants("zhang2024", "yi2023", grid=("algorithm.gamma0=0.05,0.15", "graph.rho=0.2,0.3"))

    assert list(found) == [
        "zhang2024+gamma0=0.05+graph.rho=0.2",
        "zhang2024+gamma0=0.05+graph.rho=0.3",
        "zhang2024+gamma0=0.15+graph.rho=0.2",
        "zhang2024+gamma0=0.15+graph.rho=0.3",
        "yi2023+graph.rho=0.2",
        "yi2023+graph.rho=0.3",
    ]
    assert numbers(found["zhang2024+gamma0=0.05+graph.rho=0.2"])["gamma0"] == 0.05


def test_a_setting_of_an_item_goes_before_the_grid() -> None:
    found = contestants("zhang2024+gamma0=0.3", "zhang2024", grid=("algorithm.gamma0=0.05",))

    assert [numbers(each)["gamma0"] for each in found.values()] == [0.3, 0.05]


def test_a_grid_of_codes_gives_each_its_own_numbers() -> None:
    found = contestants("zhang2024", grid=("gossip.code=exact,grid+width=0.1,top-k+keep=2+step=0.5",))

    assert list(found) == [
        "zhang2024+gossip.code=exact",
        "zhang2024+gossip.code=grid+width=0.1",
        "zhang2024+gossip.code=top-k+keep=2+step=0.5",
    ]
    sections = [each.specs[0].gossip for each in found.values()]
    assert [each.code for each in sections] == ["exact", "grid", "top-k"]
    assert [each.numbers for each in sections] == [{}, {"width": 0.1}, {"keep": 2}]
    assert [each.step for each in sections] == [1.0, 1.0, 0.5]
    assert [each.difference for each in sections] == [False, False, True]


def test_a_value_of_any_key_that_names_something_may_have_settings_of_its_own() -> None:
    found = contestants("zhang2024", grid=("graph.name=ring,erdos-renyi+degree=3.0+gossip.code=sign",))

    ring, random = found.values()
    assert list(found) == ["zhang2024+graph.name=ring", "zhang2024+graph.name=erdos-renyi+degree=3.0+gossip.code=sign"]
    assert (ring.specs[0].graph.name, ring.specs[0].gossip.code) == ("ring", "exact")
    assert (random.specs[0].graph.numbers, random.specs[0].gossip.code) == ({"degree": 3.0}, "sign")


def test_what_is_set_of_gossip_for_all_goes_to_the_codes_that_take_it() -> None:
    settings = ("gossip.width=0.1", "gossip.levels=4", "gossip.step=0.25")
    found = contestants("zhang2024", grid=("gossip.code=grid,levels,sign",), settings=settings)

    sections = [each.specs[0].gossip for each in found.values()]
    assert [each.numbers for each in sections] == [{"width": 0.1}, {"levels": 4}, {}]
    assert [each.step for each in sections] == [0.25] * 3


def test_a_grid_of_a_codes_numbers_multiplies_those_who_take_them() -> None:
    found = contestants("zhang2024", grid=("gossip.code=exact,levels", "gossip.levels=4,16"))

    assert list(found) == [
        "zhang2024+gossip.code=exact",
        "zhang2024+gossip.code=levels+levels=4",
        "zhang2024+gossip.code=levels+levels=16",
    ]


def test_a_code_is_left_out_for_those_who_gossip_nothing() -> None:
    algorithms = ["zhang2024", "zero", "cao2019+mode=central", "mahdavi2012"]
    grid = ["gossip.code=sign,float16"]
    field = read_entries("paper-compressed", algorithms, seeds=1, grid=grid, settings=["run.dimension=3"])

    assert {each.label: each.specs[0].gossip.code for each in field.contestants} == {
        "zhang2024+gossip.code=sign": "sign",
        "zhang2024+gossip.code=float16": "float16",
        "zero": "exact",
        "cao2019+mode=central": "exact",
        "mahdavi2012": "exact",
    }
    assert field.left_out["gossip"] == ["zero", "cao2019+mode=central", "mahdavi2012"]


def test_an_item_may_have_a_code_of_its_own() -> None:
    found = contestants("zhang2024+gossip.code=sign", "zhang2024", settings=("gossip.trigger=2",))

    assert [each.specs[0].gossip.code for each in found.values()] == ["sign", "exact"]
    assert [each.specs[0].gossip.trigger for each in found.values()] == [2.0, 2.0]


def test_files_of_one_name_are_told_apart_by_their_folders(mine: Path) -> None:
    (mine.parent / "other").mkdir()
    (mine.parent / "other" / "mine.py").write_text(MINE)

    found = contestants("mine.py:Mine+strength=2", "other/mine.py:Mine+strength=2", "other/mine.py:Mine")

    assert list(found) == ["mine.py:Mine+strength=2", "other/mine.py:Mine+strength=2", "mine.py:Mine"]
    assert [each.folder for each in found.values()] == [
        "mine.py_Mine+strength=2",
        "other_mine.py_Mine+strength=2",
        "mine.py_Mine",
    ]
    assert found["mine.py:Mine"].specs[0].algorithm.name == f"{mine.parent}/other/mine.py:Mine"


@pytest.mark.parametrize(
    ("algorithms", "grid", "settings", "words"),
    [
        (["yi203"], (), (), ["yi203: algorithm.name", "did you mean yi2023?"]),
        (["zhang2024", ""], (), (), ["--algorithms", "for example"]),
        (["zhang2024+gama0=1"], (), (), ["algorithm.gama0", "did you mean gamma0?"]),
        (["zhang2024+schedule=tabel2"], (), (), ["algorithm.schedule", "did you mean table2?"]),
        (["zhang2024+mode=other"], (), (), ["algorithm.mode must be"]),
        (["zhang2024+run.seed=3"], (), (), ["run.seed", "--seeds"]),
        (["zhang2024"], ["algorithm.gamma0"], (), ["--grid algorithm.gamma0", "for example"]),
        (["zhang2024"], ["algorithm.gamma0=0.1,"], (), ["--grid algorithm.gamma0=0.1,", "for example"]),
        (["zhang2024"], ["algorithm.name=yi2023,yi2024"], (), ["algorithm.name", "--algorithms"]),
        (["zhang2024"], ["graph.nme=ring"], (), ["graph"]),
        (["yi2023", "zero"], ["algorithm.gamma0=0.1"], (), ["algorithm.gamma0 is a number of none of yi2023, zero"]),
        (["zhang2024"], ["gossip.code=sign,grid"], (), ["gossip.width"]),
        (["zhang2024"], ["gossip.code=sign,gird+width=0.1"], (), ["gossip.code", "did you mean grid?"]),
        (["zhang2024"], ["gossip.code=sign,grid+width=1"], ["gossip.widht=1"], ["none of", "did you mean width?"]),
        (["zhang2024"], ["graph.rho=0.1+run.seed=2"], (), ["run.seed", "--seeds"]),
        (["yi2023"], (), ["algorithm.delta9=0.1"], ["algorithm.delta9", "did you mean delta0?"]),
        (["zhang2024"], (), ["feedback.points=1"], ["feedback.points must be at least 2"]),
        (["zhang2024"], (), ["run.rounds="], ["run.rounds is missing"]),
        (["zhang2024"], (), ["record.score_every=13"], ["record.score_every = 13"]),
        (["zhang2024"], (), ["algorithm.delta0=6.0"], ["zhang2024: algorithm.delta0 gives delta"]),
    ],
)
def test_what_is_wrong_is_one_sentence(
    algorithms: list[str], grid: list[str], settings: list[str], words: list[str]
) -> None:
    with pytest.raises(BadSpec) as refused:
        read_entries(None, algorithms, seeds=1, grid=grid, settings=(*SMALL, *settings))

    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_commas_in_brackets_do_not_split() -> None:
    assert split("a+alpha=[1.0, 0.5], b ,c+x=[[1,2],3]") == ["a+alpha=[1.0, 0.5]", "b", "c+x=[[1,2],3]"]


@given(st.lists(st.text(alphabet="abc+=.: ").map(str.strip), min_size=1))
def test_splitting_undoes_joining(pieces: list[str]) -> None:
    assert split(",".join(pieces)) == pieces
