# SPDX-License-Identifier: Apache-2.0
"""A random rectangle of some images is blanked, by the seed of each."""

import numpy as np
import pytest

from tests.preprocess.ops.running import make_seeds, run, uniform_of
from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.preprocess.registry import build_transforms
from tfjax_batches.testing import check_transforms

COUNT = 300
IMAGES = np.full((COUNT, 40, 60, 3), 7, np.uint8)


def rectangle_of(is_blank: np.ndarray) -> tuple[int, int, int, int]:
    """Return top, left, height, width of what is blank in bool[h, w]; it must be a rectangle."""
    rows, columns = np.flatnonzero(is_blank.any(1)), np.flatnonzero(is_blank.any(0))
    height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
    assert is_blank.sum() == height * width
    return int(rows[0]), int(columns[0]), int(height), int(width)


def expected_rectangle(
    numbers: np.ndarray, area: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Return the rectangle of an image of 40 × 60, drawn in float64."""
    for draw in range(10):
        share, number = numbers[3 + 2 * draw : 5 + 2 * draw].astype(float)
        size = 40 * 60 * (area[0] + (area[1] - area[0]) * share)
        drawn = np.exp(np.log(ratio[0]) + (np.log(ratio[1]) - np.log(ratio[0])) * number)
        height, width = round(float(np.sqrt(size / drawn))), round(float(np.sqrt(size * drawn)))
        if height <= 40 and width <= 60:
            break
    height, width = min(height, 40), min(width, 60)
    top = int(numbers[1] * np.float32(40 - height + 1))
    left = int(numbers[2] * np.float32(60 - width + 1))
    return top, left, height, width


@pytest.mark.parametrize(
    ("area", "ratio"), [((0.02, 0.4), (0.3, 1 / 0.3)), ((0.5, 0.9), (0.5, 1.0)), ((1, 1), (9, 9))]
)
def test_random_erasing_blanks_the_rectangle_that_the_seed_draws(
    area: tuple[float, float], ratio: tuple[float, float]
) -> None:
    seeds = make_seeds(COUNT)
    ops = f"random_erasing(0.6, {area}, {ratio}, fill=3)"
    result = run(ops, {"image": IMAGES}, seeds)["image"]
    assert result.dtype == np.uint8
    is_hit = (result != IMAGES).any((1, 2, 3))
    numbers = uniform_of(seeds, 23)
    np.testing.assert_array_equal(is_hit, numbers[:, 0] < 0.6)
    assert 0.5 < is_hit.mean() < 0.7
    for image, own in zip(result[is_hit], numbers[is_hit], strict=True):
        is_blank = (image == 3).all(-1)
        np.testing.assert_array_equal(is_blank, (image != 7).any(-1))
        assert rectangle_of(is_blank) == expected_rectangle(own, area, ratio)


@pytest.mark.parametrize(("probability", "share"), [(0, 0.0), (1, 1.0)])
def test_random_erasing_certain_probabilities_are_exact(probability: int, share: float) -> None:
    result = run(f"random_erasing({probability})", {"image": IMAGES})["image"]
    assert (result == 0).any((1, 2, 3)).mean() == share


def test_random_erasing_gives_the_same_in_any_group() -> None:
    examples = [{"image": np.full((6, 8, 1), i, np.float32)} for i in range(1, 8)]
    check_transforms(examples, [], preprocess="random_erasing(fill=-0.5)")


@pytest.mark.parametrize(
    ("ops", "text"),
    [
        ("random_erasing(1.5)", "probability must be a number from 0 to 1; got 1.5"),
        ("random_erasing(area=0.4)", "area must be .low, high.*got 0.4"),
        ("random_erasing(ratio=(2, 1))", "ratio must be .low, high"),
        ("random_erasing(fill='x')", "fill must be a number; got 'x'"),
    ],
)
def test_random_erasing_wrong_arguments_are_refused(ops: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        build_transforms(ops)


def test_random_erasing_a_fill_that_the_dtype_cannot_hold_is_named() -> None:
    with pytest.raises(FeatureError, match=r"fill is 0\.5\. Write an integer from 0 to 255"):
        run("random_erasing(fill=0.5)", {"image": IMAGES[:2]})
