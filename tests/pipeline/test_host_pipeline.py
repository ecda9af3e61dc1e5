# SPDX-License-Identifier: Apache-2.0
"""The pipeline as a value: its options change no bit, and its parts are what the loader shows."""

import dataclasses
from typing import Any

import numpy as np

import tfjax_batches as tjb
from tfjax_batches.features.paths import path_text
from tfjax_batches.pipeline.host_pipeline import ReadOptions


def test_options_come_from_the_config_and_change_no_value(numbers_folder: str) -> None:
    fields: dict[str, Any] = {
        "group_size": 3,
        "num_parallel_calls": 2,
        "threadpool_size": 2,
        "ram_budget_bytes": 2**20,
        "read_ahead_bytes": 2**20,
    }
    chosen = tjb.build(numbers_folder, global_batch_size=8, **fields)
    assert dataclasses.asdict(chosen.pipeline.options) == fields
    assert chosen.pipeline.group_sizes_at(0).groups_per_step == 4  # groups of 2 rows, all equal
    usual = tjb.build(numbers_folder, global_batch_size=8).pipeline
    assert usual.options == ReadOptions()
    found, expected = chosen.pipeline.host_batches(), usual.host_batches()
    for _ in range(5):
        batch = next(found)
        for path, values in next(expected).items():
            np.testing.assert_array_equal(batch[path], values, err_msg=path_text(path))


def test_parts_are_those_that_the_loader_shows(things_folder: str) -> None:
    loader = tjb.build(
        things_folder,
        global_batch_size=4,
        features=("number", "text"),
        keep_on_host=("text",),
        remainder="pad",
    )
    assert (
        set(loader.pipeline.device_specs) == set(loader.global_specs) == {("number",), ("_mask",)}
    )
    assert set(loader.pipeline.host_specs) == set(loader.host_specs) == {("_host", "text")}
    assert loader.plan is loader.pipeline.plan
    assert loader.pipeline.rows_at(0).tolist() == loader.layout.rows(0).tolist()
