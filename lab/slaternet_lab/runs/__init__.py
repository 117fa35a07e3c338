"""Run folders: read back, drawn, exported."""
