"""A run checked afterwards, from its journal and its resolved spec; nothing that a process reported is trusted."""
