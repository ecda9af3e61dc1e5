# SPDX-License-Identifier: Apache-2.0
"""Real processes: four devices in one, two and four processes deliver and train the same."""

import pytest

from tests.made_datasets import make_numbers
from tests.multiprocess.launching import PROGRAMS, REPOSITORY, reports, run_processes

# The fixture starts seven processes, which many checks share.
pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]

# (processes, devices in each); the first one saves the state that the others go on from.
TOPOLOGIES = [(2, 2), (1, 4), (4, 1)]
SIZES = [1, 7, 8, 9, 10, 63, 64, 65]


@pytest.fixture(scope="module")
def checked(
    numbers_folder: str, things_folder: str, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, dict[str, str]]]:
    """Return (process count, reports) of each process of each topology."""
    root = tmp_path_factory.mktemp("topologies")
    (root / "empty").mkdir()
    for size in SIZES:
        make_numbers(root / "sizes" / str(size), size, num_files=min(size, 3))
    paths = (numbers_folder, root / "empty", root / "state.json", root / "sizes", things_folder)
    return [
        (processes, reports(output))
        for processes, devices in TOPOLOGIES
        for output in run_processes(
            PROGRAMS / "check_topology.py",
            *(str(path) for path in paths),
            processes=processes,
            devices=devices,
        )
    ]


def test_law_1_every_topology_and_mesh_gives_the_same_batches(
    checked: list[tuple[int, dict[str, str]]],
) -> None:
    digests = [v for _, found in checked for k, v in found.items() if k.startswith("batches_")]
    assert len(digests) == 6 * 7
    assert len(set(digests)) == 1


def test_restore_on_other_processes_and_meshes_goes_on_bit_for_bit(
    checked: list[tuple[int, dict[str, str]]],
) -> None:
    digests = [v for _, found in checked for k, v in found.items() if k.startswith("rest_")]
    assert len(digests) == 2 + 2 * 1 + 2 * 4
    assert len(set(digests)) == 1


def test_evaluation_counts_equal_numpy_for_every_size_and_topology(
    checked: list[tuple[int, dict[str, str]]],
) -> None:
    runs = []
    for processes, found in checked:
        assert found["host_rows"] == str(8 // processes)
        runs.append({name: text for name, text in found.items() if name.startswith("counts_")})
    assert len(runs) == 7
    assert len(runs[0]) == 2 * len(SIZES) + 1, runs[0]  # and of a filter
    assert all(run == runs[0] for run in runs)


def test_law_1_every_topology_gives_the_same_transformed_batches(
    checked: list[tuple[int, dict[str, str]]],
) -> None:
    assert len(checked) == 7
    assert len({found["transformed"] for _, found in checked}) == 1


def test_train_every_topology_ends_with_the_same_ids_and_loss(digits_data_dir: str) -> None:
    runs = []
    for processes, devices in TOPOLOGIES:
        outputs = run_processes(
            REPOSITORY / "scripts" / "train.py",
            f"--config={REPOSITORY}/configs/digits.py",
            f"--config.batches.data_dir={digits_data_dir}",
            "--config.mesh=data=2,model=2",
            "--config.num_steps=60",
            processes=processes,
            devices=devices,
        )
        runs.append(reports(outputs[0]))
    first = runs[0]
    for run in runs:
        assert run["train_ids_digest"] == first["train_ids_digest"]
        assert float(run["final_loss"]) == pytest.approx(float(first["final_loss"]), abs=1e-4)
        assert run["test_examples_evaluated_once"] == run["test_examples"] == "360"
        assert float(run["test_accuracy"]) > 0.8
        classes = [float(run[f"test_accuracy_of_{digit}"]) for digit in range(10)]
        assert min(classes) < float(run["test_accuracy"]) < max(classes)
