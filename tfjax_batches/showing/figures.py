# SPDX-License-Identifier: Apache-2.0
"""Figures of matplotlib, which is optional: only drawing needs it."""

from typing import TYPE_CHECKING

from tfjax_batches.errors import MissingPackageError

try:
    import matplotlib as mpl
    from matplotlib import pyplot
except ImportError:  # `new_figure` raises
    pyplot = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure, sized in inches; a notebook shows it as the value of a cell.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    if pyplot is None:
        raise MissingPackageError(
            "Pictures are drawn with matplotlib, which is not installed. "
            "Run: pip install 'tfjax_batches[notebook]', or pip install matplotlib."
        )
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    if "inline" in mpl.get_backend():
        pyplot.close(figure)  # else the end of the cell shows it a second time
    return figure
