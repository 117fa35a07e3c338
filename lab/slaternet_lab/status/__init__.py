"""A running game: its status as a page, watched until it is over."""
