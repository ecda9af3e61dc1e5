# SPDX-License-Identifier: Apache-2.0
"""`show`: a picture of the first rows of a batch."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.features.paths import ID, MASK, Name, Path, feature_hint, find_feature, path_text
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.showing.batch import batch_arrays, on_host
from tfjax_batches.showing.figures import new_figure
from tfjax_batches.showing.local_rows import read_local_rows
from tfjax_batches.text.description import Table
from tfjax_batches.text.numbers import is_integer
from tfjax_batches.text.values import value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL_INCHES = 1.4
_MOST_COLUMNS = 8

_LabelNames = Mapping[str, Sequence[str]]
_Values = dict[Path, npt.NDArray[Any]]


def show(
    batch: Mapping[str, Any],
    n: int = 16,
    *,
    label_names: _LabelNames | Sequence[str] | None = None,
    image: Name | None = None,
    label: Name | None = None,
) -> "Figure":
    """Draw the first rows of a batch: images with their labels, or else a table of values.

    Images are arrays [rows, height, width, channels] with 1, 3 or 4 channels, or uint8
    [rows, height, width]. Integers are drawn on a scale from 0 to 255; floats from 0 to 1 or from
    -1 to 1 if they all lie within, else from the least to the greatest value that is drawn.

    On several processes the rows are those of this process, and no other process takes part.
    Features whose devices hold only parts of rows, such as tokens split over a sequence axis, are
    then left out.

    Args:
        batch: Nested dict of arrays, as the iterator gives it.
        n: Number of rows to draw at most.
        label_names: `loader.label_names`, or the class names of the label.
        image: Name of the images. None: the first feature that looks like images. Empty: draw a
            table.
        label: Name of the feature to write above each image. None: `label`, or the first within a
            dict that has that name there.

    Returns:
        The figure. A notebook shows it as the value of a cell; `savefig` writes it.

    Raises:
        ConfigError: `n` is not a positive integer; or `batch` is not a nested dict of arrays, or
            holds no whole row on this process.
        FeatureError: `image` or `label` names no feature, or `image` one without images.
        MissingPackageError: matplotlib is not installed.

    Example::

        tjb.show(next(batches), label_names=loader.label_names)
    """
    if not is_integer(n, 1):
        raise ConfigError(f"n is a number of rows, at least 1; got n={n!r}. Pass n=16.")
    rows, values = _first_rows(batch, n)
    images = _find("image", image, values, [p for p, array in values.items() if _is_image(array)])
    # A label within a dict comes after that of the example.
    found = sorted((path for path in values if path[-1] == "label"), key=len)
    labels = _find("label", label, values, found)
    if not isinstance(label_names, Mapping):
        label_names = {path_text(labels): label_names} if label_names else {}
    if not images:
        return _draw_table(rows, values, label_names)
    titles = [_title(values, index, labels, label_names) for index in range(len(rows))]
    return _draw_images(_to_levels(images, values[images]), titles)


def _find(argument: str, name: Name | None, values: _Values, defaults: Sequence[Path]) -> Path:
    """Return the path of a named feature; None: the first of the defaults; empty: ()."""
    if not name:
        return defaults[0] if name is None and defaults else ()
    if (path := find_feature(name, values)) is None:
        raise FeatureError(
            f"{argument} names a feature of the batch; {name!r} is not one. "
            f"{feature_hint(name, values)}"
        )
    return path


def _first_rows(batch: Mapping[str, Any], n: int) -> tuple[Int64Array, _Values]:
    """Return the first rows that are here in each feature that has some, and their values."""
    arrays = {path: array for path, array in batch_arrays(batch).items() if array.ndim}
    local = {path: read_local_rows(array) for path, array in arrays.items() if not on_host(path)}
    local = {path: (rows, values) for path, (rows, values) in local.items() if len(rows)}
    if not local:
        shapes = ", ".join(f"{path_text(p)}: {list(array.shape)}" for p, array in arrays.items())
        raise ConfigError(
            "show draws rows that one process holds whole; this process has none "
            f"({shapes or 'no arrays'}). Pass a batch of the iterator with at least one feature "
            "whose sharding splits dim 0 only."
        )
    all_rows = functools.reduce(np.union1d, [rows for rows, _ in local.values()])
    # Features on the host have all rows of this process, in order.
    for path, array in arrays.items():
        if on_host(path) and len(array) == len(all_rows):
            local[path] = all_rows, array
    rows = functools.reduce(np.intersect1d, [rows for rows, _ in local.values()])[:n]
    return rows, {
        path: local[path][1][np.searchsorted(local[path][0], rows)] for path in sorted(local)
    }


def _is_image(array: npt.NDArray[Any]) -> bool:
    if array.ndim == 3:
        return array.dtype == np.uint8
    return array.ndim == 4 and array.shape[-1] in (1, 3, 4) and array.dtype.kind not in "OSU"


def _title(values: _Values, row: int, label: Path, names: _LabelNames) -> str:
    if (MASK,) in values and not values[(MASK,)][row]:
        return "padding"
    parts = [value_text(values[label][row], names.get(path_text(label), ()))] if label else []
    return " ".join([*parts, *([f"#{values[(ID,)][row]}"] if (ID,) in values else [])])


def _to_levels(path: Path, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return images as matplotlib draws them, from 0 (black) to 1 (white)."""
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if images.ndim != 3 and not _is_image(images):
        raise FeatureError(
            "Images are [rows, height, width] or have 1, 3 or 4 channels last; feature "
            f"{path_text(path)!r} is {list(images.shape)}. Pass image='' to draw a table."
        )
    numbers = images.astype(np.float32)
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if images.dtype.kind in "iu":
        low, high = 0.0, 255.0
    elif low >= -1 and high <= 1:
        low, high = (0.0, 1.0) if low >= 0 else (-1.0, 1.0)
    levels: npt.NDArray[np.float32] = (numbers - low) / max(high - low, 1e-12)
    return np.nan_to_num(levels).clip(0.0, 1.0)


def _draw_images(pictures: npt.NDArray[Any], titles: list[str]) -> "Figure":
    columns = min(len(titles), _MOST_COLUMNS)
    lines = math.ceil(len(titles) / columns)
    figure = new_figure(columns * _CELL_INCHES, lines * (_CELL_INCHES + 0.25))
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax in axes:
        ax.set_axis_off()
    for ax, picture, title in zip(axes, pictures, titles, strict=False):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
        ax.set_title(title, fontsize=9, parse_math=False)  # a $ is no mathtext
    return figure


def _draw_table(rows: Int64Array, values: _Values, names: _LabelNames) -> "Figure":
    cells = (
        (str(row), *(value_text(a[i], names.get(path_text(p), ())) for p, a in values.items()))
        for i, row in enumerate(rows)
    )
    lines = Table(tuple(cells), ("row", *map(path_text, values))).to_lines()
    figure = new_figure(0.08 * max(map(len, lines)) + 0.5, 0.2 * len(lines) + 0.5)
    ax = figure.subplots()
    ax.set_axis_off()
    text = ax.text(0, 1, "\n".join(lines), family="monospace", fontsize=9, va="top")
    text.set_parse_math(False)
    return figure
