"""From a resolved spec to the adversary's parts: the plugin, its description, the referee.

A plugin plays in this process (`isolation = "none"`), in a worker process of its own (`"process"`), or in a program
that is served elsewhere (`grpc://HOST:PORT`).
"""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Description
from slaternet.spec import Spec
from slaternet.spec.plugins import ADVERSARIES, FOREIGN, check_options, digest, is_foreign, load, place, plugin_edge
from slaternet_adversary.api import Adversary, Game, History
from slaternet_adversary.plugin import sandbox

if TYPE_CHECKING:
    from slaternet_adversary.plugin.remote import Remote

GROUP = ADVERSARIES

_KEY = "adversary.plugin"

_BUILT_IN = "slaternet_adversary.builtin."

_GRADIENTS = {"loss_gradient": "the loss", "constraint_gradient": "the constraints"}


def is_built_in(target: str) -> bool:
    """Say whether a plugin ships with us."""
    return not is_foreign(target) and place(GROUP, target, key=_KEY)[0].startswith(_BUILT_IN)


def isolation_of(spec: Spec) -> Literal["process", "none"]:
    """Return where the plugin plays: as the spec says, else apart from us unless it ships with us or is elsewhere."""
    section = spec.adversary
    if is_foreign(section.plugin):
        if section.isolation == "process":
            raise BadSpec(
                f'adversary.isolation = "process" is for Python, and {section.plugin} runs elsewhere; remove it'
            )
        return "none"
    return section.isolation or ("none" if is_built_in(section.plugin) else "process")


def plays_apart(spec: Spec) -> bool:
    """Say whether the plugin plays in another process, so that a call of it is waited for."""
    return is_foreign(spec.adversary.plugin) or isolation_of(spec) == "process"


class Maker(Protocol):
    """Makes instances of the spec's plugin for as long as it is open."""

    @property
    def code(self) -> str:
        """SHA-256 of the plugin's code."""

    def new(self) -> Adversary:
        """Return a new instance, which has played nothing."""

    def offered(self) -> frozenset[str]:
        """Return the optional methods of its rounds: those of round 1 of an instance that plays nothing else."""

    def killed(self) -> bool:
        """Say whether the process in which its instances run was killed by someone else than us."""


@contextlib.contextmanager
def open_plugin(spec: Spec) -> Iterator[tuple[Adversary, Description]]:
    """Give a new instance of the spec's plugin, and what others must know of it; ends whatever it runs in."""
    with plugin_maker(spec) as maker:
        yield make_plugin(spec, maker)


def make_plugin(spec: Spec, maker: Maker) -> tuple[Adversary, Description]:
    """Return a new instance of the spec's plugin, and what others must know of it.

    BadSpec where the plugin does not support the game, or [feedback] grants gradients that it does not have.
    """
    plugin = maker.new()
    return plugin, with_gradients(spec, maker, describe(plugin, maker))


@contextlib.contextmanager
def plugin_maker(spec: Spec) -> Iterator[Maker]:
    """Give a maker of the spec's plugin at once: what takes time is `new`. Ends whatever its instances run in."""
    target = spec.adversary.plugin
    if is_foreign(target):
        with contextlib.closing(_Outside(spec, target, lambda: target.removeprefix(FOREIGN))) as foreign:
            yield foreign
    elif isolation_of(spec) == "process":
        code, (_, name) = digest(GROUP, target, key=_KEY), place(GROUP, target, key=_KEY)
        with sandbox.start(target, LIMITS) as worker:
            listening = functools.partial(worker.listening, LIMITS.plugin_seconds)
            with contextlib.closing(_Outside(spec, name, listening, code, worker.killed)) as outside:
                yield outside
    else:
        yield _Inside(spec)


def describe(plugin: Adversary, maker: Maker) -> Description:
    """Return what others must know of a plugin, but for its gradients.

    Where functions come from a file of data, its hash is part of the code's: both decide them.
    """
    code, data = maker.code, getattr(plugin, "sha256", "")
    if data:
        code = hashlib.sha256(f"{code} {data}".encode()).hexdigest()
    return Description(constraints=plugin.constraints, history=plugin.history, rowwise=plugin.rowwise, code=code)


def with_gradients(spec: Spec, maker: Maker, description: Description) -> Description:
    """Return the description with the gradients that [feedback] grants; BadSpec where the plugin does not have them.

    Only a round can tell: one is played on an instance made for that, so that the one of the game plays every round
    once. Where no gradient is granted nothing is made or played.
    """
    granted = spec.feedback
    wanted = [name for name in _GRADIENTS if getattr(granted, name, False)]
    if granted is None or not wanted:
        return description
    offered = maker.offered()
    for name in wanted:
        if name not in offered:
            raise BadSpec(
                f"feedback.{name} = true needs an adversary.plugin with gradients of {_GRADIENTS[name]}, and "
                f"{spec.adversary.plugin} has none; name another, or an algorithm.name that needs no gradients"
            )
    return replace(description, loss_gradient=granted.loss_gradient, constraint_gradient=granted.constraint_gradient)


class _Inside:
    """Makes instances in this process."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._loaded = load(GROUP, spec.adversary.plugin, key=_KEY)
        self.code = self._loaded.sha256

    def new(self) -> Adversary:
        """Return a new instance."""
        spec, factory = self._spec, self._loaded.factory
        check_options(factory, spec.adversary.options, key="adversary.options", given=1)
        with plugin_edge("adversary plugin", spec.adversary.plugin, "its constructor"):
            plugin = factory(_game(spec), **spec.adversary.options)
        if not isinstance(plugin, Adversary) or not isinstance(getattr(plugin, "constraints", None), int):
            raise PluginFailed(
                f"the adversary plugin {spec.adversary.plugin} must be a slaternet_adversary.Adversary that says how "
                "many constraints an agent has"
            )
        return plugin

    def offered(self) -> frozenset[str]:
        """Play round 1 of an instance that plays nothing else."""
        spec, plugin = self._spec, self.new()
        past = History(np.empty((0, spec.run.agents, spec.run.dimension))) if plugin.history else None
        with plugin_edge("adversary plugin", spec.adversary.plugin, "play(1)"):
            functions = plugin.play(1, past)
        return frozenset(name for name in _GRADIENTS if callable(getattr(functions, name, None)))

    def killed(self) -> bool:
        """Say no: that process is ours."""
        return False


class _Outside:
    """Makes instances in a process that serves slaternet.v1.Plugin."""

    def __init__(
        self,
        spec: Spec,
        name: str,
        address: Callable[[], str],
        code: str = "",
        killed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._spec = spec
        self._name = name
        self._address = address
        self._made: list[Remote] = []
        self.code = code
        self.killed = killed

    def new(self, *, probe: bool = False) -> "Remote":
        """Return a new instance."""
        from slaternet_adversary.plugin.remote import Remote  # gRPC, which a game in one process does without

        spec = self._spec
        plugin = Remote.connect(
            self._address(),
            _game(spec),
            spec.adversary.options,
            set=json.dumps({"kind": spec.set.kind, **spec.set.numbers}),
            deadline=LIMITS.plugin_seconds,
            probe=probe,
            name=self._name,
        )
        self._made.append(plugin)
        self.code = self.code or plugin.version
        return plugin

    def offered(self) -> frozenset[str]:
        """Ask the process, which plays round 1 of an instance that plays nothing else."""
        methods = self.new(probe=True).methods
        return frozenset(name for name in _GRADIENTS if methods is not None and getattr(methods, name))

    def close(self) -> None:
        """Close every connection."""
        for plugin in self._made:
            plugin.close()


def _game(spec: Spec) -> Game:
    return Game(spec.run.agents, spec.run.dimension, spec.run.seed, spec.feasible_set())
