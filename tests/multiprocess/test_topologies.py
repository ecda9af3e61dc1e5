# SPDX-License-Identifier: Apache-2.0
"""Real processes: four devices in one, two and four processes deliver and train the same."""

import pytest

from tests.multiprocess.conftest import SIZES
from tests.multiprocess.launching import Launches, reports

# A launch runs several programs, and the first test starts three launches.
pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]

# (processes, devices in each)
TOPOLOGIES = [(2, 2), (1, 4), (4, 1)]


def reports_everywhere(launches: Launches, program: str) -> list[tuple[int, dict[str, str]]]:
    """Return (process count, reports) of each process of each topology."""
    return [
        (processes, reports(output))
        for processes, devices in TOPOLOGIES
        for output in launches.outputs(program, processes, devices)
    ]


def test_law_1_every_topology_and_mesh_gives_the_same_batches(launches: Launches) -> None:
    checked = reports_everywhere(launches, "check_batches")
    digests = [v for _, found in checked for k, v in found.items() if k.startswith("batches_")]
    assert len(digests) == 6 * 7
    assert len(set(digests)) == 1


def test_restore_on_other_processes_and_meshes_goes_on_bit_for_bit(launches: Launches) -> None:
    checked = reports_everywhere(launches, "go_on_from_state")
    for run in ("rest_", "mixed_"):
        digests = [v for _, found in checked for k, v in found.items() if k.startswith(run)]
        assert len(digests) == 2 + 2 * 1 + 2 * 4
        assert len(set(digests)) == 1


def test_law_1_every_topology_gives_the_same_mixture_in_stages_and_sizes(
    launches: Launches,
) -> None:
    checked = reports_everywhere(launches, "go_on_from_state")
    assert len(checked) == 7
    assert len({found["whole_mixture"] for _, found in checked}) == 1


def test_evaluation_counts_equal_numpy_for_every_size_and_topology(launches: Launches) -> None:
    checked = reports_everywhere(launches, "evaluate_exactly")
    runs = []
    for processes, found in checked:
        assert found["host_rows"] == str(8 // processes)
        runs.append({name: text for name, text in found.items() if name.startswith("counts_")})
    assert len(runs) == 7
    assert len(runs[0]) == 2 * len(SIZES) + 1, runs[0]  # and of a filter
    assert all(run == runs[0] for run in runs)


def test_law_1_every_topology_gives_the_same_transformed_batches(launches: Launches) -> None:
    checked = reports_everywhere(launches, "transform_alike")
    assert len(checked) == 7
    assert len({found["transformed"] for _, found in checked}) == 1


def test_train_every_topology_ends_with_the_same_ids_and_loss(launches: Launches) -> None:
    runs = [
        reports(launches.outputs("train_digits", processes, devices)[0])
        for processes, devices in TOPOLOGIES
    ]
    first = runs[0]
    for run in runs:
        assert run["train_ids_digest"] == first["train_ids_digest"]
        assert float(run["final_loss"]) == pytest.approx(float(first["final_loss"]), abs=1e-4)
        assert run["test_examples_evaluated_once"] == run["test_examples"] == "360"
        assert float(run["test_accuracy"]) > 0.8
        classes = [float(run[f"test_accuracy_of_{digit}"]) for digit in range(10)]
        assert min(classes) < float(run["test_accuracy"]) < max(classes)
