"""Environment variables that libraries read when they are imported."""

import os


def set_library_defaults() -> None:
    """Set the variables that the user has not set; must be called before numpy and gRPC are imported."""
    # One BLAS thread: several services share a machine, and none of our matrices is large.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    # gRPC's event engine passes every message through a thread of its own; without it a round takes a tenth less.
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
    # gRPC would print every failed handshake to standard error; we log it ourselves.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
