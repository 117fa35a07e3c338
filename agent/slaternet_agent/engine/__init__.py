"""An agent host as a state machine: events in, effects out."""
