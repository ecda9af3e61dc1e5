# SPDX-License-Identifier: Apache-2.0
"""The permutation: one to one, random access, pinned, and random enough."""

import json
from itertools import permutations
from math import factorial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.planning.order import ORDER_VERSION, permute, permute_each, unpermute

GOLDEN = Path(__file__).parents[1] / "golden" / "order.json"


def epoch_order(size: int, seed: int, epoch: int) -> np.ndarray:
    return permute(np.arange(size), size, seed, np.full(size, epoch))


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1), st.integers(0, 2**40))
def test_permute_any_size_is_one_to_one(size: int, seed: int, epoch: int) -> None:
    np.testing.assert_array_equal(np.sort(epoch_order(size, seed, epoch)), np.arange(size))


@given(st.integers(1, 200), st.integers(0, 9), st.data())
def test_permute_some_places_equals_the_whole(size: int, seed: int, data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20)), np.int64)
    epochs = np.array([data.draw(st.integers(0, 3)) for _ in places], np.int64)
    whole = np.stack([epoch_order(size, seed, epoch) for epoch in range(4)])
    np.testing.assert_array_equal(permute(places, size, seed, epochs), whole[epochs, places])


@pytest.mark.parametrize("size", [2**31 + 11, 10**12, 2**61])
def test_permute_huge_size_stays_in_range_and_is_one_to_one(size: int) -> None:
    places = np.concatenate([np.arange(1000), np.arange(size - 1000, size)])
    found = permute(places, size, 3, np.zeros(2000, np.int64))
    assert 0 <= found.min() <= found.max() < size
    assert len(np.unique(found)) == 2000


def test_permute_golden_values_are_unchanged() -> None:
    """A run resumes by these values: a change needs another ORDER_VERSION."""
    golden = json.loads(GOLDEN.read_text())
    assert golden["order_version"] == ORDER_VERSION
    for case in golden["orders"]:
        found = permute(
            np.array(case["places"]),
            case["size"],
            case["seed"],
            np.full(len(case["places"]), case["epoch"]),
        )
        assert found.tolist() == case["examples"], case


def test_permute_seed_and_epoch_are_not_added() -> None:
    assert not np.array_equal(epoch_order(100, 1, 0), epoch_order(100, 0, 1))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_permute_small_size_all_orders_are_equally_likely(size: int) -> None:
    epochs = 12_000
    orders = permute(
        np.tile(np.arange(size), epochs), size, 5, np.repeat(np.arange(epochs), size)
    ).reshape(epochs, size)
    codes = orders @ size ** np.arange(size)
    known = np.array(list(permutations(range(size)))) @ size ** np.arange(size)
    counts = np.array([(codes == code).sum() for code in known])
    expected = epochs / factorial(size)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    degrees = factorial(size) - 1
    # Six standard deviations above the mean of the chi-square distribution.
    assert chi_square < degrees + 6 * np.sqrt(2 * degrees)


@pytest.mark.parametrize("size", [37, 1000, 4096, 50_000])
def test_permute_order_and_place_are_uncorrelated(size: int) -> None:
    correlations = [
        np.corrcoef(np.arange(size), epoch_order(size, seed, 0))[0, 1] for seed in range(30)
    ]
    # A random permutation's correlation has standard deviation 1 / sqrt(size - 1).
    assert np.abs(np.mean(correlations)) < 5 / np.sqrt(30 * (size - 1))
    neighbours = [
        (np.diff(epoch_order(size, seed, 0)) == 1).sum() for seed in range(30)
    ]  # about one a permutation
    assert np.mean(neighbours) < 3


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1), st.integers(0, 2**40))
def test_unpermute_leads_back(size: int, seed: int, epoch: int) -> None:
    found = unpermute(epoch_order(size, seed, epoch), size, seed, np.full(size, epoch))
    np.testing.assert_array_equal(found, np.arange(size))


@pytest.mark.parametrize("size", [2**31 + 11, 10**12, 2**61])
def test_unpermute_huge_size_leads_back(size: int) -> None:
    places = np.concatenate([np.arange(1000), np.arange(size - 1000, size)])
    epochs = np.arange(2000) % 7
    np.testing.assert_array_equal(
        unpermute(permute(places, size, 3, epochs), size, 3, epochs), places
    )


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**64 - 1)), min_size=1, max_size=6),
    st.data(),
)
def test_permute_each_equals_permute_of_each_order(
    orders: list[tuple[int, int]], data: st.DataObject
) -> None:
    of = np.array(data.draw(st.lists(st.integers(0, len(orders) - 1), min_size=1, max_size=50)))
    rows = range(len(of))
    places = np.array([data.draw(st.integers(0, orders[of[row]][0] - 1)) for row in rows])
    epochs = np.array([data.draw(st.integers(0, 2)) for _ in rows])
    sizes, seeds = (np.array(column, np.uint64) for column in zip(*orders, strict=True))
    found = permute_each(places, of, sizes.astype(np.int64), seeds, epochs)
    for row in rows:
        size, seed = orders[of[row]]
        here = slice(row, row + 1)
        assert found[row] == permute(places[here], size, seed, epochs[here])[0]
