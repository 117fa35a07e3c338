"""The referee: the adversary as a state machine, events in, effects out."""
