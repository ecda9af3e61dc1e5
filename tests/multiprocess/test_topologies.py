# SPDX-License-Identifier: Apache-2.0
"""Real processes: four devices in one, two and four processes deliver and train the same."""

from pathlib import Path

import pytest

from tests.multiprocess.launching import PROGRAMS, REPOSITORY, reports, run_processes

pytestmark = pytest.mark.multiprocess

# (processes, devices in each)
TOPOLOGIES = [(1, 4), (2, 2), (4, 1)]


def test_law_1_every_topology_and_mesh_gives_the_same_batches(
    numbers_folder: str, tmp_path: Path
) -> None:
    digests = set()
    for processes, devices in TOPOLOGIES:
        outputs = run_processes(
            PROGRAMS / "check_batches.py",
            numbers_folder,
            str(tmp_path),
            processes=processes,
            devices=devices,
        )
        for output in outputs:
            found = {k: v for k, v in reports(output).items() if len(v) == 64}
            assert len(found) == 6, output
            digests |= set(found.values())
    assert len(digests) == 1


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
