# SPDX-License-Identifier: Apache-2.0
"""The situations that the README describes, on real processes."""

import pytest

from tests.multiprocess.launching import Launches

# A launch runs several programs, and the first that is asked for may start two launches.
pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("processes", "devices", "held"),
    [
        (4, 1, ["a1_", "a5_", "a6_", "b4_"]),
        (
            2,
            1,
            [
                "a2_",
                "a5_",
                "a6_",
                "trees_of_other_leaves",
                "arrays_placed",
                "a_large_tree",
                "a_file_that_one_process_lacks",
                "splits_of_tfds",
            ],
        ),
        (2, 2, ["b1_", "b3_"]),
    ],
)
def test_scenarios_hold_on_every_process(
    launches: Launches, processes: int, devices: int, held: list[str]
) -> None:
    for output in launches.outputs("show_scenarios", processes, devices):
        lines = [line for line in output.splitlines() if line.startswith("held: ")]
        assert len(lines) == len(held)
        for line, name in zip(lines, held, strict=True):
            assert line.startswith(f"held: {name}")


def test_b2_every_mesh_and_way_ends_with_the_same_loss(launches: Launches) -> None:
    """A two-dimensional mesh is not needed for a reduction over hosts."""
    output = launches.outputs("train_every_way", processes=2, devices=2)[0]
    values = {
        name: [line.split(": ")[1] for line in output.splitlines() if line.startswith(f"{name}: ")]
        for name in ("way", "train_ids_digest", "final_loss")
    }
    assert len(values["way"]) == len(values["final_loss"]) == 5
    assert len(set(values["train_ids_digest"])) == 1
    losses = [float(loss) for loss in values["final_loss"]]
    assert losses == pytest.approx([losses[0]] * 5, abs=1e-4)
