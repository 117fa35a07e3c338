"""Several algorithms on the same functions and graphs: who plays, how they fared."""
