"""One BLAS thread per process: several services share a machine, and none of our matrices is large."""

import os


def one_thread() -> None:
    """Limit BLAS to one thread; must be called before numpy is imported."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
