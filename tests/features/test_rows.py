# SPDX-License-Identifier: Apache-2.0
"""A function of one row gives the same for any number of rows, known beforehand or not."""

import numpy as np
import pytest
import tensorflow as tf

from tfjax_batches.features.rows import UNROLLED_ROWS, map_rows


def sums(row: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {"sum": tf.reduce_sum(row["x"]), "twice": 2 * row["x"]}


SIGNATURE = {"sum": tf.TensorSpec([], tf.int32), "twice": tf.TensorSpec([3], tf.int32)}
COUNTS = [0, 1, UNROLLED_ROWS - 1, UNROLLED_ROWS, 3 * UNROLLED_ROWS + 5]


@pytest.mark.parametrize("is_static", [True, False])
def test_map_rows_gives_each_row_its_result(is_static: bool) -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def mapped(x: tf.Tensor) -> dict[str, tf.Tensor]:
        found: dict[str, tf.Tensor] = map_rows(sums, {"x": x}, SIGNATURE)
        return found

    for count in COUNTS[is_static:]:  # a graph for no row at all is never made
        x = np.arange(count * 3, dtype=np.int32).reshape(count, 3)
        shape = [count if is_static else None, 3]
        found = mapped.get_concrete_function(tf.TensorSpec(shape, tf.int32))(tf.constant(x))
        np.testing.assert_array_equal(found["sum"], x.sum(axis=1))
        np.testing.assert_array_equal(found["twice"], 2 * x)


def test_map_rows_of_unknown_number_never_maps_a_row_twice() -> None:
    seen: list[int] = []

    def note(value: np.ndarray) -> np.ndarray:
        seen.append(int(value))
        return value

    def noted(row: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(note, [row["x"]], tf.int64), [])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])  # type: ignore[untyped-decorator]
    def mapped(x: tf.Tensor) -> tf.Tensor:
        return map_rows(noted, {"x": x}, tf.TensorSpec([], tf.int64))

    for count in COUNTS:
        seen.clear()
        assert mapped(np.arange(count)).numpy().tolist() == list(range(count))
        assert sorted(seen) == list(range(count))
