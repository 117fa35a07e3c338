"""Settings of libraries that read them from the environment when they are imported."""

import os


def set_library_defaults() -> None:
    """Set what suits our processes, unless the user has; must be called before numpy and gRPC are imported."""
    # One BLAS thread: several services share a machine, and none of our matrices is large.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    # gRPC's event engine hands every message on through a thread of its own; without it a round takes a tenth less.
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
    # Every handshake that fails would be a line of its own on standard error; we say it in words of ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
