"""Make certificates, and the scaffold of a plugin package."""
