"""Play a game over the network or in one process, resume one, play many side by side."""
