"""The theory's assumptions, checked on a spec: set, graphs, schedule, functions, and which theorem applies."""
