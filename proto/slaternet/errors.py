"""Every error that crosses a boundary.

    SlaternetError
    +-- Refused              the caller is at fault; the same bytes never help
    |   +-- Malformed            INVALID_ARGUMENT     fix the message
    |   +-- WrongRun             INVALID_ARGUMENT     join the run first
    |   +-- OutsideSet           OUT_OF_RANGE         ask inside the feasible set
    |   +-- Unknown              UNAUTHENTICATED      join, and present the ticket meant for this server
    |   +-- NotYours             PERMISSION_DENIED    speak for your own seats
    |   +-- Superseded           ABORTED              a newer incarnation of this name has joined; leave
    |   +-- OverBudget           RESOURCE_EXHAUSTED   ask for no more than the game grants
    |   +-- AlreadyAsked         ALREADY_EXISTS       a round's question cannot be changed
    |   +-- Mismatch             FAILED_PRECONDITION  run the same version, spec and libraries everywhere
    +-- Unready              the same bytes may help later
    |   +-- Replaced             ABORTED              a newer stream of this name took over; open another if need be
    |   +-- RoundNotOpen         FAILED_PRECONDITION  wait for the round
    |   +-- NotSeated            UNAVAILABLE          wait for the seating
    |   +-- Forgotten            NOT_FOUND            the round lies before the low-water mark
    +-- Diverged             DATA_LOSS            two copies of one thing differ; the run stops
    |   +-- Damaged              INTERNAL             see the log of the process whose file it is
    +-- PluginFailed         INTERNAL             see the adversary's log; agents are told nothing more
    +-- Unreachable          UNAVAILABLE          start the process named, or correct its address
    +-- BadSpec              (never on the wire)  correct the key named; exit code 2
    +-- RunFailed            (never on the wire)  a process of a run died or the game failed; exit code 3

The text of an error is one sentence that names the culprit and the remedy. Texts that go to a peer never contain
values of a function, or paths: those of status INTERNAL, and those never on the wire, stay in our own log.
"""

from typing import ClassVar, Self

from slaternet.plugin_faults import PluginFault

NO_MEMORY = "there is not enough memory for this; make the game smaller, or take a machine that has more"
"""What is said of a MemoryError, wherever it is raised."""


class SlaternetError(Exception):
    """Base of all errors that a user or peer may see."""

    status: ClassVar[str] = "INTERNAL"
    """Name of the gRPC status the error travels as."""
    exit_code: ClassVar[int] = 1

    @property
    def told(self) -> str:
        """What other processes are told where this one cannot go on."""
        return str(self)


class Refused(SlaternetError):
    """The caller is at fault; the same bytes never help."""

    exit_code = 4


class Malformed(Refused):
    """A message that does not keep the wire contract."""

    status = "INVALID_ARGUMENT"


class WrongRun(Refused):
    """A message of another run."""

    status = "INVALID_ARGUMENT"


class OutsideSet(Refused):
    """A point outside the feasible set."""

    status = "OUT_OF_RANGE"


class Unknown(Refused):
    """A caller without the ticket for this server."""

    status = "UNAUTHENTICATED"


class NotYours(Refused):
    """A message in another host's name, or about another host's agents."""

    status = "PERMISSION_DENIED"


class Superseded(Refused):
    """An incarnation that a newer one of the same name has replaced."""

    status = "ABORTED"


class OverBudget(Refused):
    """A question for more than the game grants."""

    status = "RESOURCE_EXHAUSTED"


class AlreadyAsked(Refused):
    """A second, different question about a round."""

    status = "ALREADY_EXISTS"


class Mismatch(Refused):
    """Two processes that would not play the same game."""

    status = "FAILED_PRECONDITION"


class Unready(SlaternetError):
    """The same bytes may help later."""

    exit_code = 4


class Replaced(Unready):
    """A stream that a newer one of the same incarnation has replaced."""

    status = "ABORTED"


class RoundNotOpen(Unready):
    """A round outside the window."""

    status = "FAILED_PRECONDITION"


class NotSeated(Unready):
    """A caller that has no seats yet."""

    status = "UNAVAILABLE"


class Forgotten(Unready):
    """A round that lies before the low-water mark."""

    status = "NOT_FOUND"


class Diverged(SlaternetError):
    """Two copies of one thing differ: the run stops rather than go on wrong."""

    status = "DATA_LOSS"
    exit_code = 5


class Damaged(Diverged):
    """A file of ours is not what was written; only the operator sees the text, which names the file."""

    status = "INTERNAL"


class PluginFailed(SlaternetError):
    """A plugin raised or broke its contract; only the operator sees the text."""

    exit_code = 6
    fault: PluginFault | None = None
    """What it did wrong, and where in its author's code, as far as that is known."""
    command: str = ""
    """The command that asks the plugin again what it has failed at, where that was saved."""

    def __str__(self) -> str:
        return f"{super().__str__()}; to ask that call again: {self.command}" if self.command else super().__str__()

    @classmethod
    def by(cls, plugin: str, fault: PluginFault) -> Self:
        """Return the error for the failure of a plugin, which is named with its kind."""
        return cls.saying(f"the {plugin} failed: {fault.sentence}", fault)

    @classmethod
    def saying(cls, sentence: str, fault: PluginFault | None) -> Self:
        """Return the error with a sentence of its own about a fault."""
        failed = cls(sentence)
        failed.fault = fault
        return failed

    def extended(self, more: str) -> Self:
        """Return the error with something added to its sentence."""
        return self._with(f"{self.args[0]}; {more}")

    def preceded(self, beginning: str) -> Self:
        """Return the error with something in front of its sentence."""
        return self._with(f"{beginning}{self.args[0]}")

    def _with(self, sentence: str) -> Self:
        failed = self.saying(sentence, self.fault)
        failed.command = self.command
        return failed

    @property
    def told(self) -> str:
        """What other processes are told: nothing that the plugin has said, and no line of its code."""
        where = "" if self.fault is None else f" in {self.fault.where}"
        return f"{str(self).partition(' failed: ')[0]} failed{where}; the log of its process says why"


class Unreachable(SlaternetError):
    """A process that does not answer."""

    status = "UNAVAILABLE"
    exit_code = 4


class BadSpec(SlaternetError):
    """Input the user can correct: a spec, an option, a file."""

    exit_code = 2


class RunFailed(SlaternetError):
    """A process of a run died, or the game failed."""

    exit_code = 3
