# SPDX-License-Identifier: Apache-2.0
"""Law 8: an example and an epoch lead back to their place, through all maps of a source."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.test_selection import selection_of
from tests.strategies import plans
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.source_plan import PADDING


@given(plans())
def test_places_of_examples_lead_back(plan: BatchPlan) -> None:
    (source,) = plan.sources
    places = np.arange((source.epochs.count or 1) * source.epochs.length)
    examples, epochs = source.examples_at(places)
    real = examples != PADDING
    np.testing.assert_array_equal(source.places_of(examples[real], epochs[real]), places[real])


@given(st.sets(st.integers(0, 30), min_size=4, max_size=12), st.sampled_from(("none", "global")))
def test_places_of_filtered_or_unknown_examples_are_minus_one(ids: set[int], shuffle: str) -> None:
    policies = {"shuffle": shuffle, "seed": 1, "num_epochs": 2, "remainder": "drop"}
    plan = plan_dataset(selection_of(sorted(ids), 31), global_batch_size=4, **policies)  # type: ignore[arg-type]
    (source,) = plan.sources
    found, epochs = source.examples_at(np.arange(2 * source.epochs.length))
    asked = np.arange(-2, 40)
    for epoch in range(3):
        places = source.places_of(asked, np.full(len(asked), epoch))
        comes = np.isin(asked, found[epochs == epoch])
        np.testing.assert_array_equal(places >= 0, comes)
        np.testing.assert_array_equal(found[places[comes]], asked[comes])
