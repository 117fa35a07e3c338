"""What two processes of a game must agree on: messages, limits, errors, the run spec, sets and randomness.

The names below are public; their modules may move.
"""

from typing import TYPE_CHECKING

from slaternet.facade import lazy

if TYPE_CHECKING:
    from slaternet.errors import BadSpec, SlaternetError
    from slaternet.fields import checked
    from slaternet.limits import LIMITS
    from slaternet.model import Agents, Array
    from slaternet.numerics.portable import exponential, sigmoid, softplus
    from slaternet.numerics.randomness import block_length, locate
    from slaternet.numerics.sets import FeasibleSet
    from slaternet.spec import Spec

__all__ = [
    "LIMITS",
    "Agents",
    "Array",
    "BadSpec",
    "FeasibleSet",
    "SlaternetError",
    "Spec",
    "block_length",
    "checked",
    "exponential",
    "locate",
    "sigmoid",
    "softplus",
]

__getattr__ = lazy(
    __name__,
    {
        "slaternet.limits": "LIMITS",
        "slaternet.model": "Agents Array",
        "slaternet.errors": "BadSpec SlaternetError",
        "slaternet.numerics.sets": "FeasibleSet",
        "slaternet.spec": "Spec",
        "slaternet.numerics.randomness": "block_length locate",
        "slaternet.fields": "checked",
        "slaternet.numerics.portable": "exponential sigmoid softplus",
    },
)
