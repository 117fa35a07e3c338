from slaternet.suggestions import suggestion


def test_a_suggestion_is_the_nearest_word_or_else_all_of_them() -> None:
    assert suggestion("agnets", ["rounds", "agents"]) == "did you mean agents?"
    assert suggestion("xyz", ["rounds", "agents"]) == "choose from agents, rounds"


def test_a_suggestion_without_candidates_says_so() -> None:
    assert suggestion("x", []) == "there is none to choose from"
