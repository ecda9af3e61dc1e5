# SPDX-License-Identifier: Apache-2.0
"""`show`: a picture of the first rows of a batch."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import ConfigError, FeatureError, nearest_hint
from tfjax_batches.features.paths import ID, MASK
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.showing.batch import batch_arrays, on_host
from tfjax_batches.showing.figures import new_figure
from tfjax_batches.showing.local_rows import read_local_rows
from tfjax_batches.text.values import value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL_INCHES = 1.4
_MOST_COLUMNS = 8

_LabelNames = Mapping[str, Sequence[str]]
_Values = dict[str, npt.NDArray[np.generic]]


def show(
    batch: Mapping[str, Any],
    n: int = 16,
    *,
    label_names: _LabelNames | Sequence[str] | None = None,
    image: str | None = None,
    label: str | None = None,
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
        image: Path of the images. None: the first feature that looks like images. Empty: draw a
            table.
        label: Path of the feature to write above each image. None: `label`, or the first path that
            ends in `/label`.

    Returns:
        The figure. A notebook shows it as the value of a cell; `savefig` writes it.

    Raises:
        ConfigError: `n` is not a positive integer; `batch` is not a nested dict of arrays with
            rows; or an array was donated.
        FeatureError: `image` or `label` names no feature, or `image` one without images; or this
            process holds no whole row.
        MissingPackageError: matplotlib is not installed.

    Example::

        tjb.show(next(batches), label_names=loader.label_names)
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"n is a number of rows, at least 1; got n={n!r}. Pass n=16.")
    rows, values = _first_rows(batch, int(n))
    if image:
        _check_image(image, values)
    elif image is None:
        image = next((path for path, array in values.items() if _is_image(array)), "")
    if label is not None:
        _check_known("label", label, values)
    else:
        label = next((path for path in values if path.split("/")[-1] == "label"), None)
    if not isinstance(label_names, Mapping):
        label_names = {label: label_names} if label and label_names else {}
    if not image:
        return _draw_table(rows, values, label_names)
    titles = [_title(values, index, label, label_names) for index in range(len(rows))]
    return _draw_images(values[image], titles)


def _first_rows(batch: Mapping[str, Any], n: int) -> tuple[Int64Array, _Values]:
    """Return the first rows that are here in each feature that has some, and their values."""
    arrays = {path: array for path, array in batch_arrays(batch).items() if array.ndim}
    on_devices = {path: array for path, array in arrays.items() if not on_host(path)}
    _check_has_rows(on_devices)
    local = {path: read_local_rows(array) for path, array in on_devices.items()}
    local = {path: (rows, values) for path, (rows, values) in local.items() if len(rows)}
    if not local:
        raise FeatureError(
            "show draws rows that one process holds whole; this process holds only parts of rows. "
            "Pass a batch with at least one feature whose sharding splits dim 0 only."
        )
    all_rows = functools.reduce(np.union1d, [rows for rows, _ in local.values()])
    # Features on the host have all rows of this process, in order.
    for path in arrays.keys() - on_devices.keys():
        if len(arrays[path]) == len(all_rows):
            local[path] = all_rows, arrays[path]
    rows = functools.reduce(np.intersect1d, [rows for rows, _ in local.values()])[:n]
    return rows, {
        path: local[path][1][np.searchsorted(local[path][0], rows)] for path in sorted(local)
    }


def _check_has_rows(arrays: Mapping[str, Any]) -> None:
    rule = "show draws the rows of a batch of arrays"
    if not any(map(len, arrays.values())):
        shapes = ", ".join(f"{path}: {list(array.shape)}" for path, array in arrays.items())
        raise ConfigError(
            f"{rule}; this batch has no rows on devices ({shapes or 'no arrays'}). "
            "Pass a batch of the iterator."
        )
    for path, array in arrays.items():
        if isinstance(array, jax.Array) and array.is_deleted():
            raise ConfigError(
                f"{rule}; {path!r} was donated to a step, or deleted. Call show before the step."
            )


def _is_image(array: npt.NDArray[np.generic], *, any_dtype: bool = False) -> bool:
    if array.dtype.kind in "OSU":
        return False
    if array.ndim == 3:
        return any_dtype or array.dtype == np.uint8
    return array.ndim == 4 and array.shape[-1] in (1, 3, 4)


def _check_known(argument: str, path: str, values: _Values) -> None:
    if path not in values:
        raise FeatureError(
            f"{argument} names a feature of the batch; {path!r} is not one. "
            f"{nearest_hint(path, values)}"
        )


def _check_image(path: str, values: _Values) -> None:
    _check_known("image", path, values)
    if not _is_image(values[path], any_dtype=True):
        raise FeatureError(
            "Images are [rows, height, width] or have 1, 3 or 4 channels last; feature "
            f"{path!r} is {list(values[path].shape)}. Pass image='' to draw a table."
        )


def _title(values: _Values, row: int, label: str | None, names: _LabelNames) -> str:
    if MASK in values and not values[MASK][row]:
        return "padding"
    parts = [] if label is None else [value_text(values[label][row], names.get(label, ()))]
    return " ".join([*parts, *([f"#{values[ID][row]}"] if ID in values else [])])


def _draw_images(images: npt.NDArray[np.generic], titles: list[str]) -> "Figure":
    columns = min(len(titles), _MOST_COLUMNS)
    lines = math.ceil(len(titles) / columns)
    figure = new_figure(columns * _CELL_INCHES, lines * (_CELL_INCHES + 0.25))
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    pixels, low, high = _to_pixels(images)
    for ax in axes:
        ax.set_axis_off()
    for ax, picture, title in zip(axes, pixels, titles, strict=False):
        ax.imshow(picture, cmap="gray", vmin=low, vmax=high)
        ax.set_title(title, fontsize=9, parse_math=False)  # a $ is no mathtext
    return figure


def _to_pixels(images: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], float, float]:
    """Return images for matplotlib, and the values that are drawn black and white."""
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if images.dtype.kind in "iu":
        low, high = 0.0, 255.0
    elif images.dtype.kind == "b":
        low, high = 0.0, 1.0
    else:
        images = images.astype(np.float32)  # matplotlib does not know bfloat16
        least, greatest = float(np.nanmin(images)), float(np.nanmax(images))
        inside = [(low, 1.0) for low in (0.0, -1.0) if least >= low and greatest <= 1.0]
        low, high = inside[0] if inside else (least, greatest)
    if images.ndim == 4:  # for colours matplotlib takes floats from 0 to 1 only
        scaled = (images.astype(np.float32) - low) / max(high - low, 1e-12)
        images = np.nan_to_num(np.clip(scaled, 0.0, 1.0))
    return images, low, high


def _draw_table(rows: Int64Array, values: _Values, names: _LabelNames) -> "Figure":
    cells = [
        [value_text(array[index], names.get(path, ())) for path, array in values.items()]
        for index in range(len(rows))
    ]
    columns = list(zip(values, *cells, strict=True))
    widths = [max(map(len, column)) + 2 for column in columns]
    figure = new_figure(1 + 0.085 * sum(widths), 0.6 + 0.28 * len(rows))
    ax = figure.subplots()
    ax.set_axis_off()
    table = ax.table(
        cellText=cells,
        colLabels=list(values),
        rowLabels=[f"row {row}" for row in rows],
        colWidths=[width / sum(widths) for width in widths],
        cellLoc="left",
        loc="center",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    for cell in table.get_celld().values():
        cell.get_text().set_parse_math(False)
    return figure
