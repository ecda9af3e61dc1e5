# SPDX-License-Identifier: Apache-2.0
"""Pictures of batches and layouts, by what is in them."""

import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import tfjax_batches as tjb

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays_open() -> Iterator[None]:
    yield
    pyplot.close("all")


def titles(figure: Figure) -> list[str]:
    return [ax.get_title() for ax in figure.axes if ax.images]


def levels_of(ax: Axes) -> np.ndarray:
    levels = ax.images[0].get_array()
    assert levels is not None
    return levels


def lines(figure: Figure) -> list[list[str]]:
    """Return the cells of each line of a table, its header first."""
    (text,) = figure.axes[0].texts
    return [re.split(r"  +", line.strip()) for line in text.get_text().splitlines()]


def test_show_draws_images_of_a_global_batch_with_names_and_ids(digits_data_dir: str) -> None:
    loader = tjb.build(
        "digits", data_dir=digits_data_dir, global_batch_size=8, shuffle="none", with_ids=True
    )
    with iter(loader) as batches:
        batch = next(batches)
    figure = tjb.show(batch, 5, label_names=loader.label_names)
    labels = np.asarray(batch["label"])
    assert titles(figure) == [f"{labels[i]} #{i}" for i in range(5)]
    for row, ax in enumerate(ax for ax in figure.axes if ax.images):
        image = np.asarray(batch["image"])[row, ..., 0]
        np.testing.assert_allclose(levels_of(ax), image / 255, atol=1e-6)
        assert ax.images[0].get_clim() == (0, 1)


def test_show_marks_padding_and_takes_names_for_the_label_alone() -> None:
    batch = {
        "nested": {"image": np.zeros((3, 4, 4, 3), np.uint8), "label": np.array([1, 0, 7])},
        "count": np.array([0, 1, 1]),
        "_mask": np.array([True, True, False]),
    }
    assert titles(tjb.show(batch, label_names=["ant", "bee"])) == ["bee", "ant", "padding"]
    whole = {**batch, "label": np.array([0, 1, 0])}  # goes before that of a dict
    assert titles(tjb.show(whole)) == ["0", "1", "padding"]
    assert titles(tjb.show(batch, label="count")) == ["0", "1", "padding"]
    table = lines(tjb.show(batch, image="", label_names={"nested/label": ["ant", "bee"]}))
    assert [row[table[0].index("nested/label")] for row in table[1:]] == ["bee", "ant", "7"]
    assert [row[table[0].index("count")] for row in table[1:]] == ["0", "1", "1"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0.0, 0.25, 1.0], np.float32), [0.0, 0.25, 1.0]),
        (np.array([-1.0, 0.0, 1.0], np.float32), [0.0, 0.5, 1.0]),
        (np.array([-3.0, 0.0, 1.0], np.float64), [0.0, 0.75, 1.0]),
        (np.array([0.0, 5.0, np.nan], np.float32), [0.0, 1.0, 0.0]),
        (np.array([2.0, 2.0, 2.0], np.float32), [0.0, 0.0, 0.0]),
        (np.array([0.0, 0.5, 1.0], jax.numpy.bfloat16), [0.0, 0.5, 1.0]),
        (np.array([0, 51, 255], np.uint8), [0.0, 0.2, 1.0]),
        (np.array([0, 51, 300], np.int32), [0.0, 0.2, 1.0]),
        (np.array([False, True, True]), [0.0, 1.0, 1.0]),
    ],
)
def test_show_colours_run_from_black_to_white(values: np.ndarray, expected: list[float]) -> None:
    images = np.broadcast_to(values[:, None, None, None], (3, 2, 2, 3))
    figure = tjb.show({"image": images})
    drawn = [float(levels_of(ax)[0, 0, 0]) for ax in figure.axes if ax.images]
    np.testing.assert_allclose(drawn, expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 5, 1)])
def test_show_draws_grey_images_by_the_same_scale(shape: tuple[int, ...]) -> None:
    images = np.linspace(-1, 1, np.prod(shape)).reshape(shape).astype(np.float32)
    figure = tjb.show({"image": images}, image="image")
    for row, ax in enumerate(figure.axes):
        expected = (images.reshape(2, 6, 5)[row] + 1) / 2
        np.testing.assert_allclose(levels_of(ax), expected, atol=1e-6)
        assert ax.images[0].get_clim() == (0, 1)


def test_show_of_tokens_strings_and_numbers_is_a_table() -> None:
    text = np.array([b"na\xc3\xafve", b"\xff", b"x" * 99], object)
    batch = {
        "tokens": jax.numpy.arange(60).reshape(3, 20),
        "weight": np.array([1 / 3, 2, 3], np.float32),
        "_host": {"text": text, "of other rows": np.zeros(7)},
    }
    table = lines(tjb.show(batch, 2))
    assert table == [
        ["row", "_host/text", "tokens", "weight"],
        ["0", "naïve", " ".join(map(str, range(12))) + " …", "0.3333"],
        ["1", "�", " ".join(map(str, range(20, 32))) + " …", "2"],
    ]
    assert lines(tjb.show(batch))[3][1] == "x" * 39 + "…"


@pytest.mark.parametrize("text", ["$5 and $6", r"$\nosuch{$", "$", "a_b$^$"])
@pytest.mark.parametrize("image", [None, ""])
def test_show_draws_dollars_as_they_are(text: str, image: str | None) -> None:
    """Of mathtext that is wrong, drawing itself fails."""
    batch = {
        "image": np.zeros((1, 4, 4, 3), np.uint8),
        "label": np.zeros(1, np.int32),
        text: np.array([text.encode()], object),
    }
    figure = tjb.show(batch, image=image, label_names=[text])
    figure.savefig(io.BytesIO())
    drawn = [each for each in figure.findobj(Text) if text in each.get_text()]
    assert drawn
    assert not any(each.get_parse_math() for each in drawn)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": 0}, tjb.ConfigError, r"at least 1; got n=0\. Pass n="),
        ({"n": True}, tjb.ConfigError, "at least 1; got n=True"),
        (
            {"image": "imgae"},
            tjb.FeatureError,
            r"image names .*'imgae' .*'image'\?",
        ),
        ({"image": "label"}, tjb.FeatureError, r"'label' is \[2\]\. Pass image=''"),
        (
            {"label": "lable"},
            tjb.FeatureError,
            r"label names .*'lable' .*'label'\?",
        ),
    ],
)
def test_show_says_what_it_cannot_draw(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    batch = {"image": np.zeros((2, 4, 4, 3), np.uint8), "label": np.zeros(2, np.int32)}
    with pytest.raises(error, match=message):
        tjb.show(batch, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (dict, r"has none \(no arrays\)"),
        (lambda: {"x": np.float32(1)}, r"has none \(no arrays\)"),
        (lambda: {"x": np.zeros((0, 3))}, r"has none \(x: \[0, 3\]\).* iterator"),
        (lambda: np.ones(3), "nested dict of arrays; .* ndarray"),
    ],
)
def test_show_of_a_batch_without_rows_says_why(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(tjb.ConfigError, match=message):
        tjb.show(make())


def test_plot_layout_draws_a_bar_of_rows_for_each_device() -> None:
    owners = np.array([[0, 1], [1, 0]])
    layout = tjb.BatchLayout.simulate({"data": 2, "model": 2}, "data", 8, owners)
    (ax,) = tjb.plot_layout(layout).axes
    rectangles = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert len(rectangles) == len(ax.patches)
    bars = [(bar.get_x() + 0.45, bar.get_y(), bar.get_height()) for bar in rectangles]
    np.testing.assert_allclose(bars, [(0, 0, 4), (1, 0, 4), (2, 4, 4), (3, 4, 4)])
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[0] == colours[3] != colours[1] == colours[2]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["process 0", "process 1"]
    assert ax.get_ylim() == (8, 0)  # row 0 on top


@pytest.mark.parametrize("devices", [1, 2, 4, 16, 64])
def test_plot_layout_title_of_any_width_lies_within_the_figure(devices: int) -> None:
    shape = {"replicas_of_it": 1, "a_long_data_axis": devices}
    layout = tjb.BatchLayout.simulate(shape, "a_long_data_axis", 65_536, devices)
    figure = tjb.plot_layout(layout)
    figure.canvas.draw()
    title = figure.texts[0] if figure.texts else figure.axes[0].title
    assert title.get_text().startswith("65,536 rows")
    extent, box = title.get_window_extent(), figure.bbox
    assert box.x0 <= extent.x0 < extent.x1 <= box.x1
    assert figure.axes[0].bbox.y1 <= extent.y0 < extent.y1 <= box.y1


def test_plot_layout_of_a_large_pod_draws_the_first_devices() -> None:
    layout = tjb.BatchLayout.simulate({"data": 5000}, "data", 5000, 1000)
    (ax,) = tjb.plot_layout(layout).axes
    assert len(ax.patches) == 4096
    assert ax.get_xlabel() == "device, in mesh order (904 more)"
    assert ax.get_legend() is None


def test_pictures_alone_need_matplotlib_and_say_how_to_get_it() -> None:
    code = (
        "import sys, tfjax_batches as tjb\n"
        "layout = tjb.BatchLayout.simulate({'data': 2}, 'data', 4, 2)\n"
        "str(layout.describe())\n"
        "print('matplotlib' in sys.modules, 'jax' in sys.modules)\n"
        "sys.modules['matplotlib'] = None\n"
        "try: tjb.plot_layout(layout)\n"
        "except ImportError as error: print(type(error).__name__, error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded, error = result.stdout.splitlines()
    assert loaded == "False False", result.stderr
    assert error.startswith("MissingPackageError ")
    assert "pip install 'tfjax_batches[notebook]'" in error
