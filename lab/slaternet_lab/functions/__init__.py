"""A game's functions outside a game: played again, as cones, handed to a solver."""
