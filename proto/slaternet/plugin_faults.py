"""The record of a plugin's failure: what went wrong, where in the author's code, and what was asked.

It is for the operator alone: nothing of it goes to agents or their hosts.
"""

from dataclasses import dataclass

REMEDY = "correct its code"

_CALLS = {"constructor": "its constructor", "import": "its import"}
"""How a sentence begins where the call is not a method by that name."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of a plugin's code."""

    file: str
    line: int
    function: str
    source: str
    """The line itself, without indentation; empty where it is not known."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" `{self.source}`" if self.source else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFault:
    """What a plugin did wrong: it raised an error, or it broke its contract. All texts are clean and bounded."""

    error: str = ""
    """The name of the error's type; empty where the contract was broken without one."""
    message: str = ""
    """The error's text, possibly empty; or the breach, as the end of a sentence that begins with the method."""
    remedy: str = REMEDY
    method: str = ""
    """What was called: loss, constraint, play, decide, ..., or constructor, import; empty: unknown."""
    round: int = 0
    """0: none."""
    agents: tuple[int, ...] = ()
    """The first of the agents that the call was about."""
    asked: int = 0
    """How many agents it was about."""
    frames: tuple[CodeLine, ...] = ()
    """The author's part of the traceback, innermost last; where there is none, the definition of the method."""
    traceback: str = ""
    """All of the traceback; empty where nothing was raised."""

    @property
    def place(self) -> str:
        """The author's line as FILE:LINE and its text; empty where it is not known."""
        return str(self.frames[-1]) if self.frames else ""

    @property
    def where(self) -> str:
        """What was called in which round, in words: loss of round 3."""
        words = _CALLS.get(self.method, self.method or "a call")
        return f"{words} of round {self.round}" if self.round else words

    @property
    def call(self) -> str:
        """What was called, in words: loss of round 3 for agents 0, 1."""
        words = self.where
        if self.agents:
            words += f" for agent{'s' * (self.asked > 1)} {', '.join(map(str, self.agents))}"
            words += f" and {self.asked - len(self.agents)} more" * (self.asked > len(self.agents))
        return words

    @property
    def raised(self) -> str:
        """The error with its text and place, or the breach with the place of the method; and the remedy."""
        what = ": ".join(filter(None, (self.error, self.message)))
        return f"{what}, at {self.place}; {self.remedy}" if self.frames else f"{what}; {self.remedy}"

    @property
    def sentence(self) -> str:
        """What went wrong, in one sentence that follows the name of the plugin."""
        return f"{self.call} raised {self.raised}" if self.error else f"{self.call} {self.raised}"

    @property
    def reduced(self) -> str:
        """The traceback as far as it is the author's; empty where nothing was raised."""
        if not self.traceback:
            return ""
        steps = (f'  File "{each.file}", line {each.line}, in {each.function}' for each in self.frames)
        lines = (f"{step}\n    {each.source}" for step, each in zip(steps, self.frames, strict=True))
        return "\n".join((*lines, ": ".join(filter(None, (self.error, self.message)))))
