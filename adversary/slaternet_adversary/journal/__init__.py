"""The adversary's journal: what the referee was told, recorded before anyone outside can know of it."""
