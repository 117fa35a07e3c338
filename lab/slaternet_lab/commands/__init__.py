"""The commands of `slaternet`, one module for each kind of thing a user does."""
