"""The fingerprint of a process's arithmetic, compared when it joins."""

import functools
import hashlib

import numpy as np
import scipy
from scipy.sparse import csr_array

from slaternet.model import Array
from slaternet.numerics.sets import Ball, Box, L1Ball, Simplex
from slaternet.numerics.sets.quadratic import onto_halfspaces


@functools.cache
def fingerprint() -> str:
    """Return a hash over the arithmetic that decisions depend on, done on fixed numbers, and over library versions.

    Processes with equal fingerprints compute equal bits; those with different ones may not.
    """
    digest = hashlib.sha256(f"numpy {np.__version__} scipy {scipy.__version__}".encode())
    for result in _battery():
        digest.update(result.astype("<f8").tobytes())
    return digest.hexdigest()


def _battery() -> list[Array]:
    generator = np.random.Generator(np.random.Philox(key=[2024, 1], counter=[0, 0, 3, 5]))
    normals = generator.standard_normal((64, 129))
    uniforms = generator.random((64, 129))
    # Lengths around the widths of vector registers and of numpy's unrolled and pairwise summation.
    sums = [
        np.sum(normals[:, :length].copy() * uniforms[:, :length], axis=1) for length in (1, 2, 7, 8, 10, 12, 33, 129)
    ]
    lengths = np.sqrt(np.sum(normals * normals, axis=1))
    sets = (Box(129, -0.5, 0.5), Ball(129, 2.0), Simplex(129, 2.0), L1Ball(129, 3.0))
    nearest = [each.project(normals) for each in sets]
    sides = normals[:16, :8] / np.sqrt(np.sum(normals[:16, :8].copy() ** 2, axis=1))[:, None]
    nearest.append(onto_halfspaces(normals[:, 8:16].copy(), sides, np.ones(16), 8.0))
    return [normals, uniforms, *sums, lengths, *nearest, _mixed(normals, uniforms)]


def _mixed(normals: Array, uniforms: Array) -> Array:
    starts = np.arange(0, 64 * 8 + 1, 8)
    columns = np.arange(64 * 8) * 5 % 64  # eight different columns a row
    matrix = csr_array((uniforms.ravel()[: columns.size], columns, starts), shape=(64, 64))
    product: Array = matrix @ normals
    return product
