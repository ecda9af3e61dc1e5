# SPDX-License-Identifier: Apache-2.0
"""Descriptions of runs, whose texts are in tests/golden."""

from pathlib import Path
from typing import Any

import pytest

import tfjax_batches as tjb

GOLDEN = Path(__file__).parents[1] / "golden"


def check_golden(name: str, found: object) -> None:
    """Compare with tests/golden; what was found is in the message, to be looked at and copied."""
    assert f"{found}\n" == (GOLDEN / f"{name}.txt").read_text(), f"{name} is now:\n{found}"


def test_describe_one_process(digits_data_dir: str) -> None:
    loader = tjb.build("digits", data_dir=digits_data_dir, global_batch_size=64)
    check_golden("describe_one_process", loader.describe())


def test_describe_four_processes_with_what_stays_on_the_host(things_folder: str) -> None:
    layout = tjb.BatchLayout.simulate({"data": 2, "model": 4}, "data", 4, process_of_device=4)
    loader = tjb.dry_run(
        things_folder,
        layout,
        process_index=2,
        num_epochs=3,
        shuffle="none",
        with_ids=True,
        keep_on_host=("big", "text", "words", "paths", "photo"),
        pad_to={"objects": 6},
        prefetch_bytes=500,
    )
    check_golden("describe_four_processes", loader.describe())


def test_describe_pod(digits_data_dir: str) -> None:
    pod = tjb.BatchLayout.simulate({"host": 64, "device": 4}, [("host", "device")], 1024, 64)
    loader = tjb.dry_run("digits", pod, data_dir=digits_data_dir, num_epochs=9, remainder="drop")
    check_golden("describe_pod", loader.describe())
    assert loader._repr_html_() == loader.describe()._repr_html_()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"remainder": "pad"}, "'pad': 7 rows of zeros at the end of each epoch"),
        ({"remainder": "drop"}, "'drop': 3 examples left out of each epoch"),
        ({}, "'carry': batches go on with the next epoch"),
        ({"num_epochs": 1}, "'carry': batches go on with the next epoch; 3 examples left out at"),
        ({"num_epochs": 2}, "steps      4 in 2 epochs; 2 per epoch"),
        ({"seed": 7}, "shuffle='global', seed=7"),
        ({"prefetch_depth": 3, "prefetch_bytes": 1000}, "capped at 1,000 B"),
        ({"prefetch_depth": 0}, "0 batches, 0 B on the devices"),
    ],
)
def test_describe_says_what_becomes_of_examples(
    numbers_folder: str, fields: dict[str, Any], expected: str
) -> None:
    layout = tjb.BatchLayout.simulate({"data": 2}, "data", 10, process_of_device=2)
    assert expected in str(tjb.dry_run(numbers_folder, layout, **fields).describe())
