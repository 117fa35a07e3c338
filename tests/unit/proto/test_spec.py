import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.spec import PublicSpec, Spec
from slaternet.spec.overrides import override

TEXT = """
[run]
agents = 100
rounds = 1000
dimension = 10

[set]
kind = "box"
lower = -5.0
upper = 5.0

[algorithm]
name = "zhang2024"
schedule = "table2"
gamma0 = 0.15

[graph]
name = "paper"
rho = 0.1

[adversary]
plugin = "linear-regression"
options = { rows = 4, b = 0.01 }
"""

scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text('aß"\\\n\t#= '),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=5,
)


def spec() -> Spec:
    return Spec.parse(TEXT, source="a.toml")


def refusal(*settings: str, text: str = TEXT) -> str:
    with pytest.raises(BadSpec) as refused:
        Spec.load(override(text, settings, source="a.toml"), source="a.toml")
    return str(refused.value)


def test_a_spec_offers_what_its_text_says() -> None:
    parsed = spec()

    assert (parsed.run.agents, parsed.run.rounds, parsed.run.dimension) == (100, 1000, 10)
    assert parsed.set.numbers == {"lower": -5.0, "upper": 5.0}
    assert parsed.algorithm.numbers == {"gamma0": 0.15}
    assert parsed.graph.numbers == {"rho": 0.1}
    assert parsed.adversary.options == {"rows": 4, "b": 0.01}


def test_what_a_spec_leaves_out_has_its_documented_default() -> None:
    parsed = spec()

    assert parsed.run.name == "game"
    assert parsed.run.seed == 1
    assert parsed.run.reproducible
    assert parsed.feedback is None
    assert not parsed.record.decisions
    assert parsed.record.score_every == 1


def test_absent_rounds_mean_a_game_without_end() -> None:
    assert Spec.load(override(TEXT, ["run.rounds="]), source="a.toml").run.rounds is None


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=5), values, max_size=4))
def test_a_spec_written_and_read_again_is_the_same_spec(options: dict[str, object]) -> None:
    written = spec().replace(**{"adversary.options": options})

    again = Spec.parse(written.to_toml(), source="again")

    assert again == written
    assert again.digest() == written.digest()


def test_the_limits_of_a_plugin_are_no_part_of_the_digest_and_hosts_do_not_learn_them() -> None:
    limited = spec().replace(**{"adversary.seconds": 5, "adversary.memory": 512})

    assert limited.digest() == spec().digest()
    assert limited.public == spec().public
    assert "seconds = 5.0\nmemory = 512\n" in limited.to_toml()
    assert Spec.parse(limited.to_toml(), source="a") == limited != spec()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("seconds=0", "seconds must be above 0, not 0"),
        ("seconds=inf", "seconds must be at most 86400, not inf"),
        ("memory=0", "memory must be at least 1, not 0"),
        ("memory=1.5", "memory must be a whole number, not 1.5"),
        ("memory=2 GiB", "memory must be a whole number, not '2 GiB'"),
    ],
)
def test_a_limit_that_is_none_is_refused(setting: str, sentence: str) -> None:
    with pytest.raises(BadSpec, match=f"adversary\\.{re.escape(sentence)}$"):
        Spec.load(override(spec().tables(), [f"adversary.{setting}"]), source="a")


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    turned = TEXT.replace("lower = -5.0\nupper = 5.0", "upper = 5.0\nlower = -5.0")

    assert Spec.parse(turned, source="turned").digest() == spec().digest()


@pytest.mark.parametrize(
    "setting", ["run.seed=2", "adversary.seed=1", "graph.rho=0.2", "adversary.options.b=0.02", "set.lower=-5"]
)
def test_every_change_changes_the_digest(setting: str) -> None:
    changed = Spec.load(override(TEXT, [setting]), source="a.toml")

    assert changed.digest() != spec().digest()


def test_a_spec_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        spec().run.agents = 3


def test_replace_changes_the_keys_named_and_no_other() -> None:
    changed = spec().replace(**{"run.rounds": 50, "adversary.sha256": "a" * 64})

    assert changed.run.rounds == 50
    assert changed.adversary.sha256 == "a" * 64
    assert changed.replace(**{"run.rounds": 1000, "adversary.sha256": None}) == spec()


def test_the_public_part_lacks_what_hosts_must_not_know_and_nothing_else() -> None:
    whole = spec().replace(departures=[{"round": 2, "agents": [1]}])
    tables = whole.tables()
    del tables["adversary"], tables["record"]

    public = whole.public

    assert public.tables() == tables
    assert PublicSpec.parse(public.to_toml(), source="again") == public
    with pytest.raises(BadSpec, match=r"\[adversary\] is not a section"):
        PublicSpec.parse(whole.to_toml(), source="host")
    assert not hasattr(public, "digest")  # the plain digest of a spec is nothing that a host has


@pytest.mark.parametrize(
    ("seed", "draws", "sealed"), [(None, 1, False), (0, 0, True), (1, 1, False), (2**63 - 1, 2**63 - 1, True)]
)
def test_the_functions_have_a_seed_of_their_own_or_that_of_the_run(seed: int | None, draws: int, sealed: bool) -> None:
    own = spec().replace(**{"adversary.seed": seed})

    assert (own.run.seed, own.function_seed, own.sealed) == (1, draws, sealed)


def test_a_seed_that_is_to_be_drawn_is_none_before() -> None:
    drawn = spec().replace(**{"adversary.seed": "random"})

    assert drawn.sealed
    with pytest.raises(BadSpec, match=r'adversary\.seed = "random" is not drawn yet'):
        _ = drawn.function_seed
    assert drawn.with_drawn(5).function_seed == 5
    assert drawn.with_drawn(5).with_drawn(6).function_seed == 5
    assert spec().with_drawn(5) == spec()


@pytest.mark.parametrize(("seed", "after"), [(None, None), (7, 9), ("random", "random")])
def test_a_shift_moves_both_seeds(seed: object, after: object) -> None:
    shifted = spec().replace(**{"adversary.seed": seed}).shifted(2)

    assert (shifted.run.seed, shifted.adversary.seed) == (3, after)


def test_the_feasible_set_has_the_dimension_of_the_run() -> None:
    assert spec().feasible_set().dimension == 10


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("run.agents=0", "a.toml: run.agents must be at least 1, not 0"),
        (f"run.agents={LIMITS.agents + 1}", f"a.toml: run.agents must be at most {LIMITS.agents}, not 65537"),
        ("run.agents=1.5", "a.toml: run.agents must be a whole number, not 1.5"),
        ("run.agents=true", "a.toml: run.agents must be a whole number, not True"),
        ("run.agents=", "a.toml: run.agents is missing; add it to [run]"),
        ("run.agent=3", "a.toml: run.agent is not a key of [run]; did you mean agents?"),
        ("run.rounds=0", "a.toml: run.rounds must be at least 1, not 0"),
        ("run.dimension=0", "a.toml: run.dimension must be at least 1, not 0"),
        ("run.seed=-1", "a.toml: run.seed must be at least 0, not -1"),
        (f"run.seed={2**63}", f"a.toml: run.seed must be below {2**63}, not {2**63}"),
        ("run.name=a b", "a.toml: run.name must be 1 to 64 letters, digits, dots, dashes or underscores, not 'a b'"),
        ("run.name=../x", "a.toml: run.name must be 1 to 64 letters, digits, dots, dashes or underscores, not '../x'"),
        ("run.reproducible=1", "a.toml: run.reproducible must be true or false, not 1"),
        ("set.kind=3", "a.toml: set.kind must be text in quotes, not 3"),
        ("set.lower=nan", "a.toml: set.lower must be finite, not nan"),
        ("set.lower=[0, inf]", "a.toml: set.lower must be finite, not inf"),
        ("algorithm.sha256=x", "a.toml: algorithm.sha256 must be 64 hexadecimal digits, not 'x'"),
        ("feedback.point=1", "a.toml: feedback.point is not a key of [feedback]; did you mean points?"),
        ("grpah.name=ring", "a.toml: [grpah] is not a section of a spec; did you mean graph?"),
        (
            "adversary.seed=-1",
            f'a.toml: adversary.seed must be a whole number from 0 to {2**63 - 1}, or "random", not -1',
        ),
        (
            "adversary.seed=true",
            f'a.toml: adversary.seed must be a whole number from 0 to {2**63 - 1}, or "random", not True',
        ),
        (
            "adversary.seed=any",
            f"a.toml: adversary.seed must be a whole number from 0 to {2**63 - 1}, or \"random\", not 'any'",
        ),
        ("adversary.isolation=thread", 'a.toml: adversary.isolation must be "process" or "none", not \'thread\''),
        (
            "adversary.options.day=2024-01-01",
            "a.toml: adversary.options.day must be a number, text, list or table, not 2024-01-01",
        ),
        ("record.score_every=0", "a.toml: record.score_every must be at least 1, not 0"),
        ("run.agents.x=1", "run.agents.x cannot be set, because run.agents is a value and not a section"),
        ("rounds=3", "--set rounds=3 is not section.key=value; write for example --set run.rounds=200"),
        ("run.rounds", "--set run.rounds is not section.key=value; write for example --set run.rounds=200"),
    ],
)
def test_a_wrong_key_is_one_sentence_that_names_it_and_the_remedy(setting: str, sentence: str) -> None:
    assert refusal(setting) == sentence


def test_several_mistakes_are_counted() -> None:
    assert refusal("run.agents=0", "run.dimension=0") == "a.toml: run.agents must be at least 1, not 0 (and 1 more)"


def test_a_text_that_is_no_toml_is_refused_with_line_and_column() -> None:
    sentence = refusal(text="[run]\nagents == 3\n")

    assert sentence.startswith("a.toml is not TOML: ")
    assert "line 2, column" in sentence


def test_a_text_beyond_the_limit_is_refused_before_it_is_read() -> None:
    assert "longer than" in refusal(text="#" * (LIMITS.spec_bytes + 1))


def test_a_section_given_as_a_value_is_refused() -> None:
    assert refusal(text="run = 3\n").startswith("a.toml: run must be a table, not 3")


def test_settings_are_read_as_toml_and_otherwise_as_text() -> None:
    settings = ["a.x=1", "a.x=2.5", 'a.y="1"', "a.z=ring", "a.l=[1, 2]", "a.m=1\nb = 2"]

    assert override({}, settings) == {"a": {"x": 2.5, "y": "1", "z": "ring", "l": [1, 2], "m": "1\nb = 2"}}


def test_settings_leave_the_tables_they_were_given_alone() -> None:
    tables = tomllib.loads(TEXT)

    override(tables, ["run.agents=3", "adversary.options.b=1"])

    assert tables == tomllib.loads(TEXT)


def test_naming_other_code_forgets_the_hash_and_the_isolation_of_the_old_one() -> None:
    resolved = spec().replace(**{"adversary.sha256": "a" * 64, "algorithm.sha256": "b" * 64})
    resolved = resolved.replace(**{"adversary.isolation": "none"})

    changed = Spec.load(override(resolved.tables(), ["adversary.plugin=x.py:X"]), source="a.toml")

    assert changed.adversary.sha256 == ""
    assert changed.adversary.isolation is None
    assert changed.algorithm.sha256 == "b" * 64
