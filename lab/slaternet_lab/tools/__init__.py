"""Certificates and the scaffold of a plugin package."""
