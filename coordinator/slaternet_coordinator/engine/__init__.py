"""The coordinator as a state machine: events in, effects out."""
