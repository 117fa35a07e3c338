"""Every call of a plugin's functions: results are checked, and errors name the plugin."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec, Diverged, PluginFailed, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.spec.author_frames import broken
from slaternet.spec.plugins import Loaded, check_options, plugin_edge
from slaternet_adversary.api import Adversary, Game
from slaternet_adversary.scoring import WrongScores

KIND = "adversary plugin"
"""What an adversary is called in the sentence of its failure."""
BUILT_IN = "slaternet_adversary.builtin."
"""The beginning of the names of modules with adversaries that ship with us."""


MODERATE = "keep its values finite and moderate everywhere in X"
"""What is to be done about values that cannot be scored."""

T = TypeVar("T")

_MOST = LIMITS.magnitude**2
_ROWS = {"loss": (), "constraint": ("m",), "loss_gradient": ("p",), "constraint_gradient": ("m", "p")}
"""The sizes of a value of each method, by name."""
_FORMS = {"quadratic": ("c ()", "h (p)", "H (p, p)"), "linear": ("", "b (k m)", "B (k m, p)")}
"""The parts of a closed form and their sizes by name, each in the place of its number of dimensions."""


def name_of(plugin: object) -> str:
    """Return the name of a plugin for people: its class, or the plugin that it stands for."""
    return str(getattr(plugin, "name", "")) or type(plugin).__name__


def adversary_edge(plugin: Adversary, method: str, round: int) -> AbstractContextManager[None]:
    """Return the plugin edge of one of an adversary's own methods."""
    return plugin_edge(KIND, name_of(plugin), method, round, of=plugin, passing=passing(type(plugin)))


def passing(kind: type[Any], *ours: type[SlaternetError]) -> tuple[type[BaseException], ...]:
    """Return the errors that are not a plugin's own: `ours`, of a built-in one all of them and that memory ran out."""
    return (SlaternetError, MemoryError) if kind.__module__.startswith(BUILT_IN) else ours or (SlaternetError,)


def new_instance(loaded: Loaded, game: Game, options: Mapping[str, object]) -> Adversary:
    """Return a new instance of a plugin; BadSpec for wrong options, PluginFailed where it does not say what it is."""
    plugin = loaded.factory(game, **check_options(loaded.factory, options, key="adversary.options", given=1))
    if not isinstance(plugin, Adversary):
        raise breach(plugin, "constructor", "makes no slaternet_adversary.Adversary", "derive its class from that one")
    if not isinstance(getattr(plugin, "game", None), Game):
        raise breach(plugin, "constructor", "does not keep the game", "call super().__init__(game) in it")
    for name, limit in (("constraints", LIMITS.constraints), ("history", LIMITS.plugin_message_bytes)):
        number = getattr(plugin, name, None)
        if not isinstance(number, int) or not 0 <= number <= limit:
            what = f"leaves {name} = {number!r} where a whole number from 0 to {limit} is due"
            raise breach(plugin, "constructor", what, f"set {name} in the class, or in its constructor")
    return plugin


class CheckedRound:
    """The functions of one round; their results have the right shape and are finite, or PluginFailed is raised."""

    def __init__(self, plugin: Adversary, round: int, functions: Any, *, finite: bool = True) -> None:  # noqa: ANN401
        self.plugin = plugin
        self.round = round
        self.name = f"round {round}"
        self._plugin_name = name_of(plugin)
        self.functions = functions  # a Round, with optional methods
        self._passing = passing(type(plugin))
        self.m, self.p = plugin.constraints, plugin.game.dimension
        self._finite = finite
        self._rows = {"constraint": (self.m,), "loss_gradient": (self.p,), "constraint_gradient": (self.m, self.p)}

    def has(self, method: str) -> bool:
        """Whether the round offers an optional method."""
        return callable(getattr(self.functions, method, None))

    def scoring(self) -> "CheckedRound":
        """Return the functions that are scored: these, unless the round has others."""
        if not self.has("scoring"):
            return self
        with self.edge("scoring"):
            return CheckedRound(self.plugin, self.round, self.ask("scoring"), finite=self._finite)

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f of the agents at their points (k, s, p), (k, s)."""
        return self.values("loss", agents, points)

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return g of the agents at their points, (k, s, m)."""
        return self.values("constraint", agents, points)

    def values(self, method: str, agents: Agents, points: Array) -> Array:
        """Return a method's result at points (k, s, p), (k, s, ...), from one call."""
        with self.edge(method, agents):
            shape = (*points.shape[:2], *self._rows.get(method, ()))
            return self.checked(method, self.ask(method, agents, points), shape, agents)

    def asked(self, method: str, agents: Agents, points: Array) -> Array:
        """Return the same as a game asks: one agent per call, unless the plugin is rowwise."""
        if not points.shape[1]:
            return np.empty((*points.shape[:2], *self._rows.get(method, ())))  # plugins need not support that
        if self.plugin.rowwise or len(agents) == 1:
            return self.values(method, agents, points)
        rows = [slice(i, i + 1) for i in range(len(agents))]
        return np.concatenate([self.values(method, agents[row], points[row]) for row in rows])

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the average loss of the agents is 1/2 x'Hx + h'x + c."""
        with self.edge("quadratic", agents):
            hessian, slope, constant = self.ask("quadratic", agents)
            hessian = self.checked("quadratic", hessian, (self.p, self.p))
            return hessian, self.checked("quadratic", slope, (self.p,)), float(self.checked("quadratic", constant, ()))

    def linear(self, agents: Agents) -> tuple[Array, Array]:
        """Return (B, b): the stacked constraints of the agents are B x - b."""
        with self.edge("linear", agents):
            matrix, bound = self.ask("linear", agents)
            rows = len(agents) * self.m
            return self.checked("linear", matrix, (rows, self.p)), self.checked("linear", bound, (rows,))

    def scored(self, step: Callable[[], T], agents: Agents) -> T:
        """Do a step of scoring these functions; what they return is checked."""
        with self.edge("", agents):
            try:
                return step()
            except WrongScores as error:
                raise self.breach(error.method, agents, str(error), "return a number for every point") from None

    def require_finite(self, agents: Agents, loss: float, violation: float) -> None:
        """Raise PluginFailed where a score of these functions is not finite."""
        if not math.isfinite(loss + violation):
            method, value = ("constraint", violation) if math.isfinite(loss) else ("loss", loss)
            own = f"network_{'loss' if method == 'loss' else 'violation'}"
            what = f"makes a score that is {value:g}, not finite or too large"
            raise self.breach(own if self.has(own) else method, agents, what, MODERATE)

    def stacked(self, agents: Agents, points: Array) -> Array:
        """Return g of the agents, one below the other, at points (N, p), (N, k m)."""
        if self.has("linear"):
            matrix, bound = self.linear(agents)
            values: Array = points @ matrix.T
            values -= bound
            return values
        k, m = len(agents), self.m
        stacked = np.empty((len(points), k * m))
        step = max(1, LIMITS.chunk_bytes // (8 * k * max(self.p, m, 1)))
        for first in range(0, len(points), step):
            part = points[first : first + step]
            values = self.constraint(agents, np.broadcast_to(part, (k, *part.shape)))
            stacked[first : first + step] = values.transpose(1, 0, 2).reshape(-1, k * m)
        return stacked

    def tangents(self, agents: Agents, chosen: NDArray[np.intp], x: Array) -> tuple[Array, Array]:
        """Return the chosen rows (c,) of the stacked constraints at x, (c,), and their gradients, (c, p)."""
        if self.has("linear"):
            matrix, bound = self.linear(agents)
            return matrix[chosen] @ x - bound[chosen], matrix[chosen]
        places, position = np.unique(chosen // self.m, return_inverse=True)
        points = np.broadcast_to(x, (len(places), 1, len(x)))
        values = self.constraint(agents[places], points)
        gradients = self.values("constraint_gradient", agents[places], points)
        return values[position, 0, chosen % self.m], gradients[position, 0, chosen % self.m]

    def edge(self, method: str, agents: Agents | None = None) -> AbstractContextManager[None]:
        """Return the plugin edge, which names the method."""
        passing = self._passing
        return plugin_edge(KIND, self._plugin_name, method, self.round, agents, of=self.functions, passing=passing)

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - what a plugin returns
        """Call a method."""
        return getattr(self.functions, method)(*arguments)

    def checked(self, method: str, value: object, shape: tuple[int, ...], agents: Agents | None = None) -> Array:
        """Return a method's result as an array of float64; PluginFailed where it is not what was asked for."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            what = f"returned {_described(value, array)} where an array of float64 was due"
            raise self.breach(method, agents, what, "return real numbers")
        if array.shape != shape:
            what = f"returned the wrong shape: expected {self._expected(method, shape)}, got {array.shape}"
            raise self.breach(method, agents, what, "return an array of that shape")
        numbers = np.asarray(array, dtype=np.float64, order="C")
        # the sum of squares: one pass, and neither what is not finite nor what is too large gets through
        if self._finite and not np.vdot(numbers, numbers) <= _MOST:
            raise self._wild(method, numbers, agents)
        return numbers

    def breach(self, method: str, agents: Agents | None, what: str, remedy: str) -> PluginFailed:
        """Return the error for a method that broke the contract."""
        fault = broken(self.functions, method, self.round, agents, what, remedy)
        return PluginFailed.by(f"{KIND} {self._plugin_name}", fault)

    def _expected(self, method: str, shape: tuple[int, ...]) -> str:
        """Return a shape with the names of its sizes."""
        names = _FORMS[method][len(shape)] if method in _FORMS else f"({', '.join(('k', 's', *_ROWS[method]))})"
        return f"{names} = {shape}"

    def _wild(self, method: str, numbers: Array, agents: Agents | None) -> SlaternetError:
        """Return the error for numbers that are not finite, or too large to be scored."""
        finite = np.isfinite(numbers)
        found = numbers[~finite][0] if not finite.all() else numbers.flat[np.abs(numbers).argmax()]
        what = "is not finite" if not np.isfinite(found) else f"is too large to be scored (above {LIMITS.magnitude:g})"
        if type(self.plugin).__module__.startswith(BUILT_IN):  # its numbers are the user's
            remedy = "lower the numbers in [set], adversary.options or the file that these name"
            return BadSpec(f"{method} of {self._plugin_name} {what} in {self.name}; {remedy}")
        if agents is not None and numbers.ndim > 1:
            worst = np.where(finite, np.abs(numbers), np.inf).reshape(len(agents), -1).max(axis=1)
            agents = agents[[worst.argmax()]]
        return self.breach(method, agents, f"returned {found:g}, which {what}", MODERATE)


@dataclass(frozen=True, slots=True)
class Served:
    """Where a plugin is served by another process."""

    address: Callable[[], str]
    """Waits until it is served, if need be by a new process, and returns where: "unix:/path" or "host:port"."""
    killed: Callable[[str], bool] = lambda address: False
    """Whether the process that served it at an address was killed."""
    renew: Callable[[], None] = lambda: None
    """Puts a new process in the place of one that will not answer any more."""
    patience: float = 0.0
    """How many seconds the address is dialled again where nobody answers there any more."""


class Unanswered(PluginFailed):
    """No answer has come, and none will: the process has ended by itself, or hangs."""


class InstanceLost(PluginFailed):
    """An instance is gone, through no fault of the plugin: its process was killed, or does not know it any more."""


class ServerGone(InstanceLost):
    """Nobody answers any more where the plugin was served; another process may soon."""


def first_difference(agents: Agents, before: Sequence[Array | None], now: Sequence[Array | None]) -> int | None:
    """Return the first agent with a number that is not the same to the bit; rows of the arrays are those of agents."""
    pairs = [(old, new) for old, new in zip(before, now, strict=True) if old is not None and new is not None]
    for row, agent in enumerate(agents):
        if any(old[row].tobytes() != new[row].tobytes() for old, new in pairs):
            return int(agent)
    return None


def contradiction(plugin: object, round: int, agent: int, *, changed: bool = False) -> Diverged:
    """Return the error for a plugin whose functions are others when it is played again; `changed`: so is its code."""
    if changed:
        return Diverged(
            f"the adversary plugin {name_of(plugin)} was changed, and contradicts the game: it has another value for "
            f"agent {agent} in round {round} than the one that was given; nothing is written; make it agree with every "
            "answer given so far, or put back the code that was played with"
        )
    return Diverged(
        f"the adversary plugin {name_of(plugin)} is not reproducible: played again, it has another value for agent "
        f"{agent} in round {round} than the one it gave; correct its code (slaternet adversary-check examines it), and "
        "begin the game anew"
    )


def breach(plugin: object, method: str, what: str, remedy: str, round: int = 0) -> PluginFailed:
    """Return the error for a plugin that broke its contract in one of its own methods."""
    return PluginFailed.by(f"{KIND} {name_of(plugin)}", broken(plugin, method, round, None, what, remedy))


def require_round(plugin: Adversary, round: int, functions: object) -> None:
    """Raise PluginFailed where what `play` has returned has not the methods of a round."""
    if not callable(getattr(functions, "loss", None)) or not callable(getattr(functions, "constraint", None)):
        what = f"returned {type(functions).__name__}, which has no methods loss and constraint"
        raise breach(plugin, "play", what, "return an object that has both", round)


def _described(value: object, array: Array) -> str:
    return f"an array of {array.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def written(point: Array, shown: int = 8) -> str:
    """Return a point as text, by its first coordinates."""
    numbers = ", ".join(f"{each:.6g}" for each in point[:shown])
    return f"({numbers}, ...)" if len(point) > shown else f"({numbers})"
