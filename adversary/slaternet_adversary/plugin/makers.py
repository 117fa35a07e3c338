"""From a resolved spec to the adversary's parts: the plugin, its description, the referee.

A plugin runs in this process (`isolation = "none"`, or where it is debugged), in a worker process (`"process"`), in a
program that is started (`exec:./drones --port {port}`), or in one that is served elsewhere (`grpc://HOST:PORT`).
"""

import abc
import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS, Limits
from slaternet.model import Description
from slaternet.prints import label_of, labelled
from slaternet.spec import Spec
from slaternet.spec.debugger import is_debugged
from slaternet.spec.plugins import ADVERSARIES, FOREIGN, digest, is_foreign, is_python, load, place, plugin_edge
from slaternet.spec.programs import is_program
from slaternet.spec.session import is_of_session
from slaternet_adversary.api import Adversary, Game, History
from slaternet_adversary.plugin import sandbox
from slaternet_adversary.plugin.calls import BUILT_IN, KIND, Served, new_instance, passing
from slaternet_adversary.plugin.data import check_data, hash_data

if TYPE_CHECKING:
    from slaternet_adversary.plugin.remote import Remote

GROUP = ADVERSARIES

MEBIBYTE = 1 << 20

_KEY = "adversary.plugin"

_GRADIENTS = {"loss_gradient": "the loss", "constraint_gradient": "the constraints"}


def is_built_in(target: str) -> bool:
    """Whether a plugin is part of this package."""
    return is_python(target) and place(GROUP, target, key=_KEY)[0].startswith(BUILT_IN)


def isolation_of(spec: Spec) -> Literal["process", "none"]:
    """Return where the plugin runs: as the spec says, else in a process unless it is built in or served elsewhere."""
    plugin, isolation = spec.adversary.plugin, spec.adversary.isolation
    if is_foreign(plugin) and isolation == "process":
        raise BadSpec(f'adversary.isolation = "process" is for Python, and {plugin} runs elsewhere; remove it')
    if is_of_session(plugin) and isolation == "process":
        raise BadSpec(f'adversary.isolation = "process" is for code in files, and {plugin} is in none; remove it')
    if is_foreign(plugin) or is_of_session(plugin):
        return "none"
    if is_program(plugin) and isolation == "none":
        raise BadSpec('adversary.isolation = "none" is for Python, and a program has a process of its own; remove it')
    return isolation or ("none" if is_built_in(plugin) else "process")


def plays_apart(spec: Spec) -> bool:
    """Whether the plugin runs in another process, so that calls of it wait; not where this one is debugged."""
    if not is_python(spec.adversary.plugin):
        return True
    return isolation_of(spec) == "process" and not is_debugged()


class Maker(abc.ABC):
    """Makes instances of the spec's plugin for as long as it is open."""

    spec: Spec
    code: str
    """SHA-256 of the plugin's code."""

    @abc.abstractmethod
    def new(self) -> Adversary:
        """Return a new instance, which has played nothing."""

    @abc.abstractmethod
    def offered(self) -> frozenset[str]:
        """Return the gradients that its rounds have: those of round 1 of an instance that plays nothing else."""


@contextlib.contextmanager
def open_plugin(spec: Spec, *, labels: bool = True) -> Iterator[tuple[Adversary, Description]]:
    """Give a new instance of the spec's plugin and its description; at the end of the block, end its process."""
    with plugin_maker(spec, labels=labels) as maker:
        yield make_plugin(spec, maker)


def make_plugin(spec: Spec, maker: Maker) -> tuple[Adversary, Description]:
    """Return a new instance of the spec's plugin and its description.

    BadSpec where the plugin does not support the game, or [feedback] grants gradients that it does not have.
    """
    plugin = maker.new()
    return plugin, with_gradients(spec, maker, describe(plugin, maker))


@contextlib.contextmanager
def plugin_maker(spec: Spec, patience: float = 0.0, served_at: str = "", *, labels: bool = True) -> Iterator[Maker]:
    """Give a maker of the spec's plugin at once: `new` takes the time. At the end of the block, end its process.

    A foreign plugin whose server is gone is dialled again for `patience` seconds. `served_at` is where a plugin in
    Python is served already, HOST:PORT. Without `labels`, what it prints in this process is left as it is.
    """
    target, limits = spec.adversary.plugin, limits_of(spec)
    check_data(spec)
    if is_foreign(target):
        served = Served(lambda: target.removeprefix(FOREIGN), patience=patience)
        with contextlib.closing(_Outside(spec, target, served, lambda version: version)) as foreign:
            yield foreign
    elif is_program(target):
        from slaternet_adversary.plugin.program import StartedProgram

        with StartedProgram(target, limits) as program:
            served = Served(functools.partial(program.listening, limits.plugin_seconds), program.killed, program.renew)
            with contextlib.closing(_Outside(spec, program.name, served, program.sha256)) as outside:
                yield outside
    elif served_at:
        served, (_, name) = Served(lambda: served_at, patience=patience), place(GROUP, target, key=_KEY)
        with contextlib.closing(_Outside(spec, name, served, _same_as(spec, served_at))) as outside:
            yield outside
    elif plays_apart(spec):
        code, (_, name) = digest(GROUP, target, key=_KEY), place(GROUP, target, key=_KEY)
        with sandbox.SandboxedWorker(target, limits) as worker:
            served = Served(functools.partial(worker.listening, limits.plugin_seconds), worker.killed, worker.renew)
            with contextlib.closing(_Outside(spec, name, served, lambda _: code)) as outside:
                yield outside
    else:
        plain = not labels or is_built_in(target) or is_debugged()  # else what it prints is its own
        with contextlib.nullcontext() if plain else labelled(label_of(target)):
            yield _Inside(spec)


def _same_as(spec: Spec, served_at: str) -> Callable[[str], str]:
    """Return what requires of a plugin that is served that it is the code that the spec names."""
    code = digest(GROUP, spec.adversary.plugin, key=_KEY)

    def check(version: str) -> str:
        if version != code:
            raise BadSpec(
                f"what is served at {served_at} is other code than {spec.adversary.plugin}; end it, and serve that "
                "plugin with `slaternet adversary-serve`"
            )
        return code

    return check


def limits_of(spec: Spec) -> Limits:
    """Return the limits with those that the spec sets for its plugin."""
    seconds, memory = spec.adversary.seconds, spec.adversary.memory
    return replace(
        LIMITS,
        plugin_seconds=seconds or LIMITS.plugin_seconds,
        plugin_memory_bytes=memory * MEBIBYTE if memory else LIMITS.plugin_memory_bytes,
    )


def describe(plugin: Adversary, maker: Maker) -> Description:
    """Return the description of a plugin, without gradients.

    The hash of its data is part of the code's hash: both decide the functions.
    """
    code = maker.code
    if data := hash_data(maker.spec):
        code = hashlib.sha256(f"{code} {data}".encode()).hexdigest()
    return Description(constraints=plugin.constraints, history=plugin.history, rowwise=plugin.rowwise, code=code)


def with_gradients(spec: Spec, maker: Maker, description: Description) -> Description:
    """Return the description with the gradients that [feedback] grants; BadSpec where the plugin does not have them.

    Which gradients there are is seen in a round, of an instance made for that: the game's own plays every round once.
    Where no gradient is granted no instance is made.
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


class _Inside(Maker):
    """Makes instances in this process."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._loaded = load(GROUP, spec.adversary.plugin, key=_KEY)
        self.code = self._loaded.sha256

    def new(self) -> Adversary:
        ours = passing(self._loaded.factory)
        kind = self._loaded.factory
        with plugin_edge(KIND, self.spec.adversary.plugin, "constructor", of=kind, passing=ours):
            return new_instance(self._loaded, _game(self.spec), self.spec.adversary.options)

    def offered(self) -> frozenset[str]:
        spec, plugin = self.spec, self.new()
        past = History(np.empty((0, spec.run.agents, spec.run.dimension))) if plugin.history else None
        with plugin_edge(KIND, spec.adversary.plugin, "play", 1, of=plugin):
            functions = plugin.play(1, past)
        return frozenset(name for name in _GRADIENTS if callable(getattr(functions, name, None)))


class _Outside(Maker):
    """Makes instances in a process that serves slaternet.v1.Plugin."""

    def __init__(self, spec: Spec, name: str, served: Served, code: Callable[[str], str]) -> None:
        self.spec = spec
        self._name = name
        self._served = served
        self._made: list[Remote] = []
        self._code = code  # from the version that the plugin describes itself with
        self.code = ""

    def new(self, *, probe: bool = False) -> "Remote":
        from slaternet_adversary.plugin.remote import Remote  # here, because a game in one process needs no gRPC

        spec = self.spec
        plugin = Remote.connect(
            self._served,
            _game(spec),
            spec.adversary.options,
            set=json.dumps({"kind": spec.set.kind, **spec.set.numbers}),
            deadline=limits_of(spec).plugin_seconds,
            probe=probe,
            name=self._name,
        )
        self._made.append(plugin)
        self.code = self._code(plugin.version)
        return plugin

    def offered(self) -> frozenset[str]:
        methods = self.new(probe=True).methods
        return frozenset(name for name in _GRADIENTS if methods is not None and getattr(methods, name))

    def close(self) -> None:
        for plugin in self._made:
            plugin.close()


def _game(spec: Spec) -> Game:
    return Game(spec.run.agents, spec.run.dimension, spec.function_seed, spec.feasible_set())
