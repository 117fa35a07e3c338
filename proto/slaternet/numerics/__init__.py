"""Mathematics that every package shares: feasible sets, addressed randomness, portable functions, the fingerprint."""
