"""An agent host as a process: streams in, effects executed."""
