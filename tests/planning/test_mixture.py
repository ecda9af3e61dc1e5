# SPDX-License-Identifier: Apache-2.0
"""Mixtures: counts that hold at every prefix, and the way back from a row of a source."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfjax_batches.planning.mixture import Mixture, Weights

ROWS = 2000
WEIGHTS = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=64).map(tuple)


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    """Mixtures of one to three stages; a source may pause in a stage."""
    count = draw(st.integers(1, 6))
    starts = sorted(draw(st.sets(st.integers(1, ROWS), max_size=2)))
    weight = st.floats(1e-6, 1.0) | st.just(0.0)
    stages = []
    for start in [0, *starts]:
        weights = draw(st.lists(weight, min_size=count, max_size=count).filter(any))
        stages.append((start, Weights(weights=tuple(weights))))
    return Mixture(stages=tuple(stages))


@given(WEIGHTS)
@example((0.93, 0.047, 0.029, 0.018, 0.008, 0.0077, 0.0065, *(10.0**-n for n in range(3, 20))))
@example(tuple(2.0**-n for n in range(40)))
def test_law_10_counts_stay_within_two_rows_of_their_weights(weights: tuple[float, ...]) -> None:
    sources, _ = Weights(weights=weights).locate(np.arange(ROWS))
    counts = np.cumsum(sources[:, np.newaxis] == np.arange(len(weights)), axis=0)  # [rows, sources]
    shares = np.array(weights) / sum(weights)
    expected = np.arange(1, ROWS + 1)[:, np.newaxis] * shares
    assert np.abs(counts - expected).max() < 2


@pytest.mark.parametrize("position", [10**7, 2**53 + 1, 2**60])
def test_law_10_holds_far_out_in_integers(position: int) -> None:
    weights = (0.5, 0.3, 0.1, 0.05, 0.03, 0.015, 0.005, 1e-6)
    counts = Weights(weights=weights).counts_at(position)
    exact = [Fraction(weight) for weight in weights]
    for count, weight in zip(counts.tolist(), exact, strict=True):
        assert abs(count - position * weight / sum(exact)) < 2


@given(mixtures())
def test_law_8_places_of_a_source_follow_each_other_and_lead_back(mixture: Mixture) -> None:
    positions = np.arange(ROWS)
    sources, places = mixture.locate(positions)
    for source in np.unique(sources).tolist():
        here = sources == source
        np.testing.assert_array_equal(places[here], np.arange(here.sum()))
        np.testing.assert_array_equal(mixture.positions_of(source, places[here]), positions[here])
    np.testing.assert_array_equal(
        mixture.counts_at(ROWS), np.bincount(sources, minlength=len(mixture.counts_at(0)))
    )


@given(mixtures(), st.data())
def test_locate_some_positions_equals_the_whole(mixture: Mixture, data: st.DataObject) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, ROWS - 1), max_size=20)), np.int64)
    whole_sources, whole_places = mixture.locate(np.arange(ROWS))
    sources, places = mixture.locate(positions)
    np.testing.assert_array_equal(sources, whole_sources[positions])
    np.testing.assert_array_equal(places, whole_places[positions])


@given(WEIGHTS, st.integers(2**52, 2**60))
def test_positions_of_far_out_are_exact(weights: tuple[float, ...], first: int) -> None:
    mixed = Weights(weights=weights)
    positions = first + np.arange(50)
    sources, places = mixed.locate(positions)
    for source in np.unique(sources).tolist():
        here = sources == source
        np.testing.assert_array_equal(mixed.positions_of(source, places[here]), positions[here])


def test_a_source_without_weight_gets_no_row() -> None:
    sources, _ = Weights(weights=(0.0, 1.0, 0.0, 2.0)).locate(np.arange(300))
    assert np.bincount(sources, minlength=4).tolist() == [0, 100, 0, 200]


def test_positions_of_a_place_that_never_comes_are_minus_one() -> None:
    paused = Mixture(stages=((0, Weights(weights=(1.0, 1.0))), (4, Weights(weights=(0.0, 1.0)))))
    assert paused.positions_of(0, np.array([0, 1, 2])).tolist() == [0, 2, -1]


def test_one_source_is_the_identity() -> None:
    sources, places = Mixture().locate(np.array([0, 7, 2**61]))
    assert (sources.tolist(), places.tolist()) == ([0, 0, 0], [0, 7, 2**61])


def test_locate_golden_values_are_unchanged() -> None:
    """Runs resume by these values."""
    sources, places = Weights(weights=(0.7, 0.2, 0.1)).locate(np.arange(12))
    assert sources.tolist() == [0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 1]
    assert places.tolist() == [0, 0, 1, 2, 0, 3, 4, 5, 1, 6, 7, 2]
