"""The coordinator of a game: it assigns the seats and publishes the graph of each round."""
