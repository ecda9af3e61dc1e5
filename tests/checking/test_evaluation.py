# SPDX-License-Identifier: Apache-2.0
"""Each example counts once; real processes are in multiprocess/."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tfjax_batches as tjb
from tests.made_datasets import make_numbers, number_example

SIZES = [1, 7, 8, 9, 10, 63, 64, 65]


def test_masked_mean_ignores_padding_of_any_value() -> None:
    values = jnp.array([1.0, 2.0, 6.0, jnp.nan])
    mask = jnp.array([True, True, True, False])
    assert float(jax.jit(tjb.masked_mean)(values, mask)) == 3.0
    many = jnp.stack([values, 2 * values], axis=1)
    np.testing.assert_array_equal(tjb.masked_mean(many, mask), [3.0, 6.0])
    assert float(tjb.masked_mean(jnp.array([True, False, True, True]), mask)) == pytest.approx(
        2 / 3
    )
    assert np.isnan(tjb.masked_mean(values, jnp.zeros(4, bool)))


def test_masked_mean_of_narrow_dtypes_is_neither_cut_nor_infinite() -> None:
    mean = jax.jit(tjb.masked_mean)
    assert float(mean(jnp.full(4, 2**30, jnp.int32), jnp.ones(4, bool))) == 2**30
    assert float(mean(jnp.full(4096, 100, jnp.float16), jnp.ones(4096, bool))) == 100
    assert float(mean(jnp.full(1000, 3, jnp.bfloat16), jnp.ones(1000, bool))) == 3


@pytest.mark.parametrize(
    ("values", "mask", "text"),
    [
        (jnp.ones((8, 2)), None, "got float32[8, 2] and NoneType"),
        (jnp.float32(1), jnp.ones(8, bool), "got float32[] and bool[8]"),
        (jnp.ones(7), jnp.ones(8, bool), "got float32[7] and bool[8]"),
        (jnp.ones(8), jnp.ones(8), "got float32[8] and float32[8]"),
        ([1.0, 2.0], np.ones(2, bool), "got list and bool[2]"),
    ],
)
def test_masked_mean_of_other_arrays_says_what_to_pass(values: Any, mask: Any, text: str) -> None:
    with pytest.raises(tjb.ConfigError) as caught:
        tjb.masked_mean(values, mask)
    for part in (text, "bool[batch]", "not their mean", "remainder='pad'"):
        assert part in str(caught.value)


@pytest.mark.parametrize("num_examples", SIZES)
@pytest.mark.parametrize("global_batch_size", [4, 8])
def test_gather_examples_gives_every_example_once_in_order(
    tmp_path: Path, num_examples: int, global_batch_size: int
) -> None:
    loader = tjb.build(
        make_numbers(tmp_path, num_examples),
        global_batch_size=global_batch_size,
        num_epochs=1,
        remainder="pad",
        with_ids=True,
    )
    predict = jax.jit(lambda batch: {"sum": batch["vector"].sum(1), "label": batch["label"]})
    all_ids, correct = [], 0
    for batch in iter(loader):
        ids, results = tjb.gather_examples(batch, predict(batch))
        assert ids.tolist() == sorted(ids.tolist())
        for example_id, total, label in zip(ids, results["sum"], results["label"], strict=True):
            example = number_example(int(example_id))
            assert total == example["vector"].sum()
            correct += int(label == example["label"])
        all_ids += ids.tolist()
    assert sorted(all_ids) == list(range(num_examples))
    assert correct == num_examples


def test_gather_examples_counts_a_repeated_example_once(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=40, with_ids=True)
    with iter(loader) as batches:
        batch = next(batches)
    ids, numbers = tjb.gather_examples(batch, batch["number"])
    assert ids.tolist() == numbers.tolist() == list(range(23))


def test_gather_examples_bad_input_is_named(numbers_folder: str) -> None:
    with iter(tjb.build(numbers_folder, global_batch_size=8)) as batches:
        batch = next(batches)
    with pytest.raises(tjb.ConfigError, match=r"has no '_id'\. Build the loader with with_ids"):
        tjb.gather_examples(batch, batch["number"])
    with iter(tjb.build(numbers_folder, global_batch_size=8, with_ids=True)) as batches:
        batch = next(batches)
    for bad, text in [
        ({"x": np.zeros(8)}, "x is a ndarray of shape (8,)"),
        (batch["number"].sum(), "the tree is a ArrayImpl of shape ()"),
        ([batch["number"][:4]], "0 is a ArrayImpl of shape (4,)"),
        ({"y": 3}, "y is a int of shape None"),
    ]:
        with pytest.raises(tjb.ConfigError) as caught:
            tjb.gather_examples(batch, bad)
        assert text in str(caught.value)
        assert "the 8 rows" in str(caught.value)
