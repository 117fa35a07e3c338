"""The exam of an algorithm."""
