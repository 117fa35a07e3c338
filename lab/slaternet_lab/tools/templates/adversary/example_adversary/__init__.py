"""An adversary for Slaternet."""

from .adversary import ExampleAdversary

__all__ = ["ExampleAdversary"]
