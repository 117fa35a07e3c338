"""Nearest points of polyhedra: the dual active-set method of Goldfarb and Idnani (1983), many rows side by side.

    v        v           (k, p)      what is projected
    y        y           (k, p)      the iterate: nearest to v on the active hyperplanes, at first v itself
    lambda   weights     (k, m)      multipliers >= 0, y = v - sum_j lambda_j n_j
    N*       basis       (k, m, p)   dual basis of the active normals, <n_i, basis_j> = [i = j]; 0 where inactive
    n        entering    (k,)        index of the violated halfspace that a row is making active; -1: none

Each step moves along z, the part of n at right angles to the active normals, until n holds or an active weight is used
up. Every step that makes n hold takes y farther from v, so no active set comes twice: the method is finite, and exact
where alternating projections crawl. Rows advance by themselves and leave when they are done; nothing one row does is
seen by another, and there is no BLAS, so a row's bits do not depend on its batch.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Array

_ROUNDING = 1e-14
"""Of the sizes involved: a violation below it is rounding."""
_DEPENDENT = 1e-20
"""|z|^2 below which a normal of length 1 depends on the active ones."""
_SHARE = 1e-12
"""Part of n in an active normal below which it is rounding."""
_OUTSIDE = 5e-13
"""Of R(X): how far a result may lie outside before it is pulled towards the centre."""
_STEPS = 20
"""Steps per halfspace after which a row is given up and pulled in; two or three are usual altogether."""
_CHUNK = 1 << 16
"""Numbers in the dual bases of the rows that are worked on together: what a cache holds."""


def times(normals: Array, points: Array) -> Array:
    """Return the products (..., m) of all rows of normals (m, p) with points (..., p), without BLAS."""
    products: Array = np.add.reduce(np.multiply(normals, points[..., None, :], order="C"), axis=-1)
    return products


def onto_halfspaces(v: Array, normals: Array, bounds: Array, radius: float) -> Array:
    """Return the points (k, p) of {y : normals y <= bounds} nearest to the rows of v, at most 1e-12 radius outside.

    Normals have length 1, bounds are above 0, and the set lies within radius of 0.
    """
    nearest = v.copy()
    outside = np.flatnonzero(np.logical_or.reduce(times(normals, v) > bounds, axis=-1))
    chunk = max(1, _CHUNK // normals.size)
    for first in range(0, len(outside), chunk):
        rows = outside[first : first + chunk]
        nearest[rows] = _pulled_in(_nearest(v[rows], normals, bounds, radius), normals, bounds, radius)
    return nearest


def _pulled_in(y: Array, normals: Array, bounds: Array, radius: float) -> Array:
    """Return the rows, those outside by more than rounding scaled back into the set."""
    reach = times(normals, y)
    outside = np.maximum.reduce(reach - bounds, axis=-1) > _OUTSIDE * radius
    factor = np.where(outside, np.maximum.reduce(reach / bounds, axis=-1), 1.0)
    pulled: Array = y / factor[:, None]
    return pulled


def _nearest(v: Array, normals: Array, bounds: Array, radius: float) -> Array:
    nearest = v.copy()
    rows = _start(v, normals, radius)
    for _ in range(_STEPS * len(normals)):
        violation = times(normals, rows.y) - bounds
        _choose(rows, violation)
        at_work = rows.entering >= 0
        if not at_work.all():
            done = rows.only(~at_work)
            nearest[done.place] = _polished(done, normals, bounds)
            rows, violation = rows.only(at_work), violation[at_work]
            if not at_work.any():
                return nearest
        _step(rows, violation, normals)
    nearest[rows.place] = rows.y
    return nearest


@dataclass(slots=True)
class _Rows:
    """The rows still at work, one entry of every field for each."""

    place: NDArray[np.intp]
    v: Array
    limit: Array  # what counts as a violation
    y: Array
    weights: Array
    basis: Array
    active: NDArray[np.bool_]
    entering: NDArray[np.intp]

    def only(self, which: NDArray[np.bool_]) -> "_Rows":
        return _Rows(*(getattr(self, field.name)[which] for field in fields(self)))


def _start(v: Array, normals: Array, radius: float) -> _Rows:
    count, halfspaces = len(v), len(normals)
    return _Rows(
        place=np.arange(count),
        v=v,
        limit=_ROUNDING * (radius + np.sqrt(np.add.reduce(v * v, axis=-1))),
        y=v.copy(),
        weights=np.zeros((count, halfspaces)),
        basis=np.zeros((count, *normals.shape)),
        active=np.zeros((count, halfspaces), dtype=np.bool_),
        entering=np.full(count, -1),
    )


def _choose(rows: _Rows, violation: Array) -> None:
    """Let the rows that have no halfspace entering take their most violated one, if there is any."""
    candidates = np.where(rows.active, -np.inf, violation)
    worst = np.argmax(candidates, axis=-1)
    violated = np.maximum.reduce(candidates, axis=-1) > rows.limit
    rows.entering = np.where((rows.entering < 0) & violated, worst, rows.entering)


def _step(rows: _Rows, violation: Array, normals: Array) -> None:
    """Move every row as far as its entering halfspace asks and its active weights allow."""
    each = np.arange(len(rows.place))
    share, z = _split(rows, normals)
    square = np.add.reduce(z * z, axis=-1)
    free = square > _DEPENDENT

    full = np.full(len(each), np.inf)
    np.divide(np.maximum(violation[each, rows.entering], 0.0), square, out=full, where=free)
    used_up = np.full(share.shape, np.inf)
    np.divide(rows.weights, share, out=used_up, where=rows.active & (share > _SHARE))
    leaving = np.argmin(used_up, axis=-1)
    partial = used_up[each, leaving]

    stuck = np.isinf(np.minimum(full, partial))  # by rounding only, as the set is not empty
    step = np.where(stuck, 0.0, np.minimum(full, partial))
    rows.y -= np.where(free, step, 0.0)[:, None] * z
    rows.weights = np.maximum(rows.weights - step[:, None] * share, 0.0)
    rows.weights[each, rows.entering] += step
    _leave(rows, np.flatnonzero(~stuck & (partial < full)), leaving)
    _enter(rows, np.flatnonzero(~stuck & (full <= partial)), share, z, square)
    rows.limit[stuck], rows.entering[stuck] = np.inf, -1


def _split(rows: _Rows, normals: Array) -> tuple[Array, Array]:
    """Return the entering normal as shares (k, m) of the active ones and the rest z (k, p) at right angles to them."""
    columns = np.ascontiguousarray(normals.T)
    z = normals[rows.entering]
    share = np.zeros(rows.weights.shape)
    for _ in range(2):  # the second time takes away what rounding left of the first
        rest = np.add.reduce(rows.basis * z[:, None, :], axis=-1)
        share += rest
        z = z - times(columns, rest)
    return share, z


def _enter(rows: _Rows, which: NDArray[np.intp], share: Array, z: Array, square: Array) -> None:
    """Make the entering halfspaces of these rows active."""
    fresh, entering = z[which] / square[which, None], rows.entering[which]
    rows.basis[which] -= share[which, :, None] * fresh[:, None, :]
    rows.basis[which, entering] = fresh
    rows.active[which, entering] = True
    rows.entering[which] = -1


def _leave(rows: _Rows, which: NDArray[np.intp], leaving: NDArray[np.intp]) -> None:
    """Make the halfspaces whose weights are used up inactive; the other basis vectors lose their part along theirs."""
    place = leaving[which]
    old = rows.basis[which, place]
    along = old / np.add.reduce(old * old, axis=-1)[:, None]
    parts = np.add.reduce(rows.basis[which] * along[:, None, :], axis=-1)
    rows.basis[which] -= parts[:, :, None] * old[:, None, :]
    rows.basis[which, place] = 0.0
    rows.weights[which, place] = 0.0
    rows.active[which, place] = False


def _polished(rows: _Rows, normals: Array, bounds: Array) -> Array:
    """Return v - sum_j lambda_j n_j, moved within the span of the active normals until they hold to the last digits."""
    y = rows.v - times(np.ascontiguousarray(normals.T), rows.weights)
    for _ in range(2):
        excess = np.where(rows.active, times(normals, y) - bounds, 0.0)
        y -= np.add.reduce(np.multiply(rows.basis.transpose(0, 2, 1), excess[:, None, :], order="C"), axis=-1)
    return y
