# SPDX-License-Identifier: Apache-2.0
"""`plot_layout`: a picture of the rows on each device."""

import math
from typing import TYPE_CHECKING

import numpy as np

from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.showing.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DEVICES = 4096
_MOST_NAMED = 16
_MOST_TICKS = 32


def plot_layout(layout: BatchLayout) -> "Figure":
    """Draw which rows of a batch each device holds.

    Rows run from top to bottom, devices from left to right in mesh order. The rows of a device are
    a bar in the colour of its process. Features with a sharding of their own are not drawn.

    Args:
        layout: Layout of real or simulated machines. Only the first 4,096 devices are drawn.

    Returns:
        The figure. A notebook shows it as the value of a cell; `savefig` writes it.

    Raises:
        ConfigError: `layout` is something else, such as a loader.
        MissingPackageError: matplotlib is not installed.

    Example::

        layout = tjb.BatchLayout.simulate({"data": 4, "model": 2}, "data", 64, process_of_device=4)
        tjb.plot_layout(layout)
    """
    if not isinstance(layout, BatchLayout):
        raise ConfigError(
            f"plot_layout draws a BatchLayout; got a {type(layout).__name__}. Pass loader.layout, "
            "or BatchLayout.simulate(...)."
        )
    owners = layout.process_of_device[:_MOST_DEVICES]
    count = len(owners)
    starts, stops = layout.device_rows()[:count].T  # [devices] each
    processes, firsts = np.unique(owners, return_index=True)
    labels = np.full(count, "_", object)  # the legend leaves out what begins with an underscore
    labels[firsts] = [f"process {process}" for process in processes]
    colours = [f"C{owner}" for owner in owners]
    width = min(12.0, 2.5 + 0.25 * count)
    figure = new_figure(width, 4)
    ax = figure.subplots()
    ax.bar(
        range(count), stops - starts, bottom=starts, width=0.9, color=colours, label=labels.tolist()
    )
    ax.set_ylim(layout.global_batch_size, 0)
    ax.set_xlim(-0.5, count - 0.5)
    ax.set_xticks(range(0, count, math.ceil(count / _MOST_TICKS)))
    more = len(layout.process_of_device) - count
    ax.set_xlabel("device, in mesh order" + (f" ({more:,} more)" if more else ""))
    ax.set_ylabel("row")
    # Above the figure, not the axes, which are narrower.
    figure.suptitle(layout.describe().title, fontsize=10, parse_math=False, wrap=True)
    if len(processes) <= _MOST_NAMED:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8, frameon=False)
    return figure
