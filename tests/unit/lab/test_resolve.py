import hashlib
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from slaternet.errors import BadSpec, PluginFailed
from slaternet.spec import Spec
from slaternet.spec.plugins import digest
from slaternet_lab.specs.resolve import load, resolve
from slaternet_lab.specs.shipped import find

PLUGIN = """
from slaternet_adversary import Adversary, CannotPlay


class Flat(Adversary):
    constraints = 1

    def __init__(self, game, *, height=0.0):
        super().__init__(game)
        if height < 0:
            raise CannotPlay("adversary.options.height must be at least 0")
        if height > 9:
            raise RuntimeError("too high")

    def play(self, round, past):
        raise NotImplementedError
"""


def paper(**changes: object) -> Spec:
    return Spec.parse(find("paper").text, source="paper").replace(**changes)


def refusal(*settings: str) -> str:
    with pytest.raises(BadSpec) as refused:
        load("paper", settings)
    return str(refused.value)


def test_a_resolved_spec_grants_what_the_algorithm_declares() -> None:
    feedback = load("paper").feedback

    assert feedback is not None
    assert (feedback.points, feedback.loss_gradient, feedback.constraint_gradient) == (2, False, False)


@pytest.mark.parametrize(
    ("algorithm", "question"),
    [
        ("zhang2024", (2, False, False)),
        ("yuan2022", (1, False, True)),
        ("mahdavi2012-bandit", (2, True, False)),
        ("agarwal2010-multi", (11, False, False)),
        ("zero", (0, False, False)),
    ],
)
def test_the_question_that_the_algorithm_declares_is_filled_in_whatever_stood_there(
    algorithm: str, question: tuple[int, bool, bool]
) -> None:
    asked = load("paper", [f"algorithm.name={algorithm}", "question.points=7", "question.loss_gradient=true"]).question

    assert asked is not None
    assert (asked.points, asked.loss_gradient, asked.constraint_gradient) == question


def test_a_resolved_spec_holds_the_hash_of_the_code_it_names(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("from slaternet_agent.algorithms.zhang2024 import Zhang2024\n\nclass Mine(Zhang2024): ...\n")

    spec, mine = load("paper"), load("paper", [f"algorithm.name={source}:Mine"])

    assert mine.algorithm.sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert spec.algorithm.sha256 == digest("slaternet.algorithms", "zhang2024", key="algorithm.name")
    assert len(spec.adversary.sha256) == 64
    assert spec.adversary.isolation == "none"


def test_resolving_a_resolved_spec_changes_nothing(tmp_path: Path) -> None:
    once = load("paper")

    assert resolve(once, tmp_path) == once
    assert resolve(Spec.parse(once.to_toml(), source="again"), tmp_path).digest() == once.digest()


def test_a_seed_that_is_to_be_drawn_is_drawn_when_a_spec_is_resolved_and_never_again(tmp_path: Path) -> None:
    first, second = (load("paper-short", ["adversary.seed=random"]) for _ in range(2))

    assert isinstance(first.adversary.seed, int)
    assert first.adversary.seed != second.adversary.seed
    assert resolve(first, tmp_path) == first


def test_a_relative_plugin_is_looked_up_beside_its_spec(tmp_path: Path) -> None:
    (tmp_path / "flat.py").write_text(PLUGIN)
    (tmp_path / "mine.toml").write_text(
        paper(**{"adversary.plugin": "flat.py:Flat", "adversary.options": {"height": 1.0}}).to_toml()
    )

    spec = load(str(tmp_path / "mine.toml"))

    assert spec.adversary.plugin == f"{tmp_path.resolve()}/flat.py:Flat"
    assert spec.adversary.sha256 == hashlib.sha256(PLUGIN.encode()).hexdigest()
    assert spec.adversary.isolation == "process"


@pytest.mark.parametrize("target", ["flat.py:Flat", '"flat.py:Flat"', "'flat.py:Flat'"])
def test_a_plugin_named_on_the_command_line_is_looked_up_from_the_working_directory(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)

    settings = [f"adversary.plugin={target}", "adversary.isolation=none", "adversary.options={height = 1.0}"]
    spec = load("paper", settings)

    assert spec.adversary.plugin == f"{tmp_path.resolve()}/flat.py:Flat"


def test_a_file_that_changed_since_it_was_resolved_is_a_warning_that_names_it(tmp_path: Path) -> None:
    spec = paper(**{"adversary.sha256": "0" * 64})

    with capture_logs() as logs:
        resolved = resolve(spec, tmp_path)

    (entry,) = logs
    assert entry["log_level"] == "warning"
    assert "[adversary] linear-regression is not the code the spec was resolved with" in entry["event"]
    assert resolved.adversary.sha256 != "0" * 64


def test_an_algorithm_that_changed_since_it_was_resolved_is_a_warning_too(tmp_path: Path) -> None:
    with capture_logs() as logs:
        resolved = resolve(paper(**{"algorithm.sha256": "0" * 64}), tmp_path)

    assert ["[algorithm] zhang2024" in entry["event"] for entry in logs] == [True]
    assert resolved.algorithm.sha256 == load("paper").algorithm.sha256


def test_granting_more_than_the_algorithm_declares_is_allowed_and_less_is_not() -> None:
    more = load("paper", ["feedback.points=3"])

    assert more.feedback is not None
    assert more.feedback.points == 3
    assert more.question is not None
    assert more.question.points == 2  # what the algorithm declares, whatever is granted
    assert refusal("feedback.points=1").startswith("feedback.points must be at least 2, because zhang2024 needs it;")


@pytest.mark.parametrize(
    ("setting", "beginning"),
    [
        ("set.kind=bxo", 'set.kind = "bxo" is not known; did you mean box?'),
        ("set.lower=6.0", "set.lower must be below set.upper"),
        ("set.radius=1.0", "set.radius is not an option of"),
        ("algorithm.name=zhang2042", 'algorithm.name = "zhang2042" is not known; did you mean zhang2024?'),
        ("algorithm.schedule=tabel2", 'algorithm.schedule = "tabel2" is not known; did you mean table2?'),
        ("algorithm.gama0=0.1", "algorithm.gama0 is not an option of zhang2024 with schedule table2; did you mean"),
        ("algorithm.delta0=5.1", "algorithm.delta0"),
        ("graph.name=rign", 'graph.name = "rign" is not known; did you mean ring?'),
        ("graph.roh=0.1", "graph.roh is not an option of Paper; did you mean rho?"),
        ("adversary.plugin=linear-regresion", 'adversary.plugin = "linear-regresion" is not known; did you mean'),
        ("adversary.plugin=/no/such.py:Mine", "adversary.plugin names the file /no/such.py, which does not exist;"),
        ("adversary.plugin=no_such.module:Mine", "adversary.plugin names the module no_such.module, which is not"),
        ("adversary.options.rosw=4", "adversary.options.rosw is not an option of LinearRegression; did you mean rows?"),
    ],
)
def test_what_cannot_be_played_is_one_sentence_that_names_key_and_remedy(setting: str, beginning: str) -> None:
    sentence = refusal(setting)

    assert sentence.startswith(beginning)
    assert "\n" not in sentence


def test_exploring_beyond_the_set_is_refused() -> None:
    assert "above r(X) xi = 5" in refusal("algorithm.delta0=5.1")


def test_a_graph_that_never_connects_is_refused() -> None:
    sentence = refusal("graph.name=erdos-renyi", "graph.rho=0.0")

    assert sentence.startswith("graph.")
    assert "\n" not in sentence


def test_a_graph_too_sparse_for_a_short_game_is_refused() -> None:
    sentence = refusal("graph.name=erdos-renyi", "graph.rho=0.001", "run.rounds=2")

    assert sentence == 'graph.name = "erdos-renyi" never connects the 100 agents within 2 rounds; give it more edges'


def test_a_plugin_that_refuses_the_game_is_heard_and_one_that_breaks_is_named(tmp_path: Path) -> None:
    (tmp_path / "flat.py").write_text(PLUGIN)
    spec = paper(**{"adversary.plugin": "flat.py:Flat", "adversary.isolation": "none"})

    with pytest.raises(BadSpec, match=r"^adversary\.options\.height must be at least 0$"):
        resolve(spec.replace(**{"adversary.options": {"height": -1}}), tmp_path)
    with pytest.raises(PluginFailed, match=r"flat\.py:Flat .*too high"):
        resolve(spec.replace(**{"adversary.options": {"height": 10}}), tmp_path)
