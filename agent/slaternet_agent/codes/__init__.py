"""Gossip codes: what turns the rows that agents exchange into smaller messages."""
