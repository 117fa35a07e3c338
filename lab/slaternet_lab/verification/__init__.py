"""The theorems put to the test: how fast regret and violation grow, against what Theorems 1 to 4 say."""
