"""What two processes of a game must agree on: messages, limits, errors, the run spec, sets and randomness."""
