"""A game's functions outside a game: replayed, as cones, for a solver."""
