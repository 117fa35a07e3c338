"""The largest coordinates of rows, and how they travel."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from slaternet.errors import BadSpec
from slaternet.model import Array

Keep = Annotated[int, Field(ge=1)]


def check_keep(keep: int, width: int) -> None:
    """Refuse to keep more coordinates than there are."""
    if keep > width:
        raise BadSpec(f"gossip.keep must be at most {width}, the coordinates of a row, not {keep}")


def largest(numbers: Array, keep: int) -> NDArray[np.intp]:
    """Return where the `keep` largest of each row are, ascending, (k, keep); of equal ones the first."""
    width = numbers.shape[1]
    # the least number that is kept; what a partition says of places would vary with the build of numpy, this does not
    least = np.partition(numbers, width - keep, axis=1)[:, width - keep, np.newaxis]
    above, equal = numbers > least, numbers == least
    missing = keep - np.count_nonzero(above, axis=1)
    above |= equal & (np.cumsum(equal, axis=1) <= missing[:, np.newaxis])
    return np.nonzero(above)[1].reshape(len(numbers), keep)


def shortened(values: Array) -> NDArray[np.float32]:
    """Return numbers as float32; ValueError where they are too large."""
    with np.errstate(over="ignore", under="ignore"):
        scales = values.astype(np.float32)
    if not np.isfinite(scales).all():
        raise ValueError(f"a row has a number beyond {np.finfo(np.float32).max:g}, the largest float32")
    return scales
