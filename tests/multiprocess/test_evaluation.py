# SPDX-License-Identifier: Apache-2.0
"""Real processes: padded, sharded evaluation counts what NumPy counts over `tfds.load`."""

from pathlib import Path

import pytest

from tests.made_datasets import make_numbers
from tests.multiprocess.launching import PROGRAMS, reports, run_processes

pytestmark = pytest.mark.multiprocess

SIZES = [1, 7, 8, 9, 10, 63, 64, 65]


def test_evaluation_counts_equal_numpy_for_every_size_and_topology(
    things_folder: str, tmp_path: Path
) -> None:
    for size in SIZES:
        make_numbers(tmp_path / str(size), size, num_files=min(size, 3))
    runs = []
    for processes, devices in [(1, 4), (2, 2), (4, 1)]:
        outputs = run_processes(
            PROGRAMS / "evaluate_exactly.py",
            str(tmp_path),
            things_folder,
            processes=processes,
            devices=devices,
        )
        for output in outputs:
            found = reports(output)
            assert found["host_rows"] == str(8 // processes), output
            runs.append({name: text for name, text in found.items() if name.startswith("counts_")})
    assert len(runs) == 7
    assert len(runs[0]) == 2 * len(SIZES), runs[0]
    assert all(run == runs[0] for run in runs)
