"""Test Theorems 1 to 4 by play: how fast regret and violation grow, against their bounds."""
