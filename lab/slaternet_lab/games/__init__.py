"""Processes that play many games side by side."""
