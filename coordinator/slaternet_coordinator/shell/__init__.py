"""The coordinator as a process: streams in, effects executed."""
