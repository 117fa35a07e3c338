"""Run folders: read, draw, export."""
