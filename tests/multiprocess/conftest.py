# SPDX-License-Identifier: Apache-2.0
"""One launch for each topology: its programs run in turn, and the tests share their outputs."""

import pytest

from tests.made_datasets import make_numbers
from tests.multiprocess.launching import Launches

SIZES = [1, 7, 8, 9, 10, 63, 64, 65]
TRAIN_STEPS = 300


@pytest.fixture(scope="session")
def launches(
    numbers_folder: str,
    things_folder: str,
    digits_data_dir: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Launches:
    """Outputs of all programs by topology; a topology is launched when a test first needs it."""
    root = tmp_path_factory.mktemp("topologies")
    (root / "empty").mkdir()
    for size in SIZES:
        make_numbers(root / "sizes" / str(size), size, num_files=min(size, 3))
    everywhere = {
        "check_batches": [numbers_folder, str(root / "empty")],
        "go_on_from_state": [numbers_folder, str(root / "state.json")],
        "evaluate_exactly": [str(root / "sizes"), things_folder],
        "transform_alike": [numbers_folder],
        "train_digits": [digits_data_dir, str(TRAIN_STEPS)],
    }
    scenarios = {"show_scenarios": [numbers_folder]}
    return Launches(
        {
            # The first saves the state that the others go on from.
            (2, 2): {
                **everywhere,
                **scenarios,
                "local_rows": [],
                "sum_steps": [],
                "train_every_way": [digits_data_dir],
            },
            (1, 4): everywhere,
            (4, 1): {**everywhere, **scenarios},
            (2, 1): scenarios,
        }
    )
