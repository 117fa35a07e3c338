"""The coordinator of a game: who sits where, and who may talk to whom in each round."""
