"""The exam as a class of tests, to be subclassed in an author's own test file."""

import unittest
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from slaternet.numerics.sets import Box, FeasibleSet
from slaternet.spec.plugins import check_options, load
from slaternet_adversary.api import Adversary, Game
from slaternet_adversary.plugin.makers import GROUP
from slaternet_adversary.testing.exam import WIDE, examine
from slaternet_adversary.testing.subject import ROUNDS, Line, Subject


class AdversaryContract:
    """The exam of one adversary, as a class that pytest collects.

        class TestBowl(AdversaryContract):
            target = "bowl"                    # or "package.module:Bowl", or "path/bowl.py:Bowl"
            options = {"budget": 2.0}

    Instead of naming a target, override `adversary`. The attributes below change the game; for another set, override
    `feasible_set`. The exam runs once for all tests of a class, in the process of the tests.
    """

    target: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}
    agents: ClassVar[int] = 6
    dimension: ClassVar[int] = 5
    rounds: ClassVar[int] = ROUNDS
    seed: ClassVar[int] = 1

    _reports: ClassVar[dict[type, dict[str, Line]]] = {}

    def adversary(self, game: Game) -> Adversary:
        """Return a new instance for a game."""
        factory = load(GROUP, self.target, key="target").factory
        made: Adversary = factory(game, **check_options(factory, self.options, key="options", given=1))
        return made

    def feasible_set(self, dimension: int) -> FeasibleSet:
        """Return X."""
        return Box(dimension, -2.0, 2.0)

    def test_it_plays(self) -> None:
        """It is created, has valid attributes, and plays without raising."""
        self._passes("plays")

    def test_values_have_their_shapes_and_are_finite(self) -> None:
        """For any number of agents and points, everywhere in X."""
        self._passes("shapes", "dtype", "arrays", "finite", "overflow")

    def test_a_new_instance_has_the_same_functions(self) -> None:
        """After a crash a game goes on with a new instance."""
        self._passes("re-creation")

    def test_functions_do_not_depend_on_questions(self) -> None:
        """On their order, on whether any were asked, and on which rounds were played since."""
        self._passes("query order", "reaction", "older rounds")

    def test_an_agent_s_values_do_not_depend_on_its_batch(self) -> None:
        """Where that is claimed."""
        self._passes("rowwise")

    def test_decisions_are_taken_as_they_are_given(self) -> None:
        """Where the adversary looks back."""
        self._passes("history")

    def test_losses_and_constraints_are_convex(self) -> None:
        """No value lies above a chord."""
        self._passes("convex f", "convex g")

    def test_gradients_agree_with_differences(self) -> None:
        """Where there are any."""
        self._passes("loss_gradient", "constraint_gradient")

    def test_scores_and_exact_forms_agree_with_values(self) -> None:
        """Where there are any."""
        self._passes("network_loss", "network_violation", "quadratic", "linear", "scoring")

    def test_some_point_is_feasible(self) -> None:
        """For all agents and rounds."""
        self._passes("feasible")

    def test_a_round_is_quick_and_nothing_piles_up(self) -> None:
        """Only what would stop a game has failed."""
        self._passes("time", "memory", "prints")

    def _passes(self, *lines: str) -> None:
        """Fail where a line failed; skip where a line could not be examined because another failed."""
        report = self._report()
        failed = [f"{about}: {report[about].text}" for about in lines if report[about].verdict == "failed"]
        if failed:
            raise AssertionError("\n".join(failed))
        missing = [report[about].text for about in lines if report[about].text.startswith("not examined")]
        if missing:
            raise unittest.SkipTest(missing[0])  # pytest accepts it, and need not be installed to import this

    def _report(self) -> dict[str, Line]:
        reports, kind = AdversaryContract._reports, type(self)
        if kind not in reports:
            subject = self._subject(self.agents, self.dimension)
            reports[kind] = {line.about: line for line in examine(subject)}
        return reports[kind]

    def _subject(self, agents: int, dimension: int) -> Subject:
        game = Game(agents, dimension, self.seed, self.feasible_set(dimension))

        @contextmanager
        def opened() -> Iterator[Adversary]:
            yield self.adversary(game)

        return Subject(game, opened, self.rounds, lambda: self._subject(*WIDE.values()))
