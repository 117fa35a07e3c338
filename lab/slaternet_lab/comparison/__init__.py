"""Several algorithms on the same functions and graphs: contestants, games, results."""
