"""From what a user names to a spec that can be played."""
