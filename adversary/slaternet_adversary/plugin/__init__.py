"""Where an adversary's plugin runs, and how it is called."""
