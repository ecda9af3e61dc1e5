# SPDX-License-Identifier: Apache-2.0
"""Figures of matplotlib, which is optional: it is missed when a picture is drawn, not before."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjax_batches.errors import MissingPackageError

try:
    import matplotlib as mpl
    from matplotlib import pyplot
except ImportError:  # said by `new_figure`
    pyplot = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches.

    In a notebook it is shown where it is the value of a cell, once; elsewhere `pyplot.show` shows
    it, too.

    Raises:
        MissingPackageError: There is no matplotlib.
    """
    if pyplot is None:
        raise MissingPackageError(
            "Pictures are drawn with matplotlib, which is not installed. "
            "Run: pip install 'tfjax_batches[notebook]', or pip install matplotlib."
        )
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    if "inline" in mpl.get_backend():
        pyplot.close(figure)  # an open one is shown at the end of the cell, a second time
    return figure


def colours(numbers: Sequence[int]) -> list[Any]:
    """Return a colour for each number; equal numbers have equal ones."""
    return [pyplot.get_cmap("tab20")(number % 20) for number in numbers]
