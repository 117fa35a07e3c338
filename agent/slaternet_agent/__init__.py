"""The agents of a game: their algorithms, and the host that seats them."""
