"""The records of `slaternet.v1.Plugin`: what a game and an adversary outside its process say to each other."""

from dataclasses import dataclass

SERVICE = "slaternet.v1.Plugin"


@dataclass(frozen=True, slots=True)
class Methods:
    """Which optional things the functions of a round offer."""

    loss_gradient: bool = False
    constraint_gradient: bool = False
    network: bool = False
    quadratic: bool = False
    linear: bool = False
