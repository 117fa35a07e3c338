"""The adversary as a process: streams in, effects executed."""
