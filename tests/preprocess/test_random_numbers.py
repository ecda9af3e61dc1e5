# SPDX-License-Identifier: Apache-2.0
"""Numbers follow from seeds alone, and have the distributions that they say."""

import numpy as np
import pytest
import tensorflow as tf

from tests.preprocess.ops.running import make_seeds, uniform_of
from tfjax_batches.preprocess.random_numbers import beta, randint, uniform

SEEDS = np.random.default_rng(0).integers(-(2**31), 2**31, (20_000, 2)).astype(np.int32)


def test_uniform_is_that_of_numpy_whatever_the_group() -> None:
    seeds = make_seeds(9)
    whole = uniform(seeds, 4).numpy()
    # As a graph too: its optimizer rounds constants of uint64.
    np.testing.assert_array_equal(whole, tf.function(lambda x: uniform(x, 4))(tf.constant(seeds)))
    np.testing.assert_array_equal(whole, uniform_of(seeds, 4))
    np.testing.assert_array_equal(whole[3:5], uniform(seeds[3:5], 4))
    np.testing.assert_array_equal(whole[:, :2], uniform(seeds, 2))


def test_uniform_is_even_and_columns_do_not_follow_each_other() -> None:
    numbers = uniform(SEEDS, 3).numpy()
    assert numbers.dtype == np.float32
    assert 0 <= numbers.min() < numbers.max() < 1
    counts = np.stack([np.histogram(column, 20, (0, 1))[0] for column in numbers.T])
    assert np.all(np.abs(counts - 1000) < 5 * np.sqrt(1000))
    assert np.abs(np.corrcoef(numbers.T) - np.eye(3)).max() < 0.03


def test_randint_stays_below_its_bound() -> None:
    largest = np.float32(1) - np.float32(2**-24)
    assert randint([0.0, largest], 7).numpy().tolist() == [0, 6]
    assert randint([largest], 2**24 + 1).numpy() <= 2**24
    counts = np.bincount(randint(uniform(SEEDS, 1)[:, 0], 10).numpy(), minlength=10)
    assert np.all(np.abs(counts - 2000) < 5 * np.sqrt(2000))


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0, 8.0])
def test_beta_has_the_quantiles_of_numpy(alpha: float) -> None:
    shares = beta(SEEDS, alpha).numpy()
    reference = np.random.default_rng(1).beta(alpha, alpha, 400_000)
    at = np.linspace(0.001, 0.999, 99)
    ours = np.searchsorted(np.sort(shares), at) / len(shares)
    theirs = np.searchsorted(np.sort(reference), at) / len(reference)
    assert np.abs(ours - theirs).max() < 1.95 / np.sqrt(len(SEEDS))  # Kolmogorov and Smirnov
    assert np.isfinite(shares).all()
    np.testing.assert_array_equal(shares[5:9], beta(SEEDS[5:9], alpha))
