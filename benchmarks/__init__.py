"""What we measure: `make bench`."""
