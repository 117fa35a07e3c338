"""Processes that play many games side by side, and what a user sees of them."""
