# SPDX-License-Identifier: Apache-2.0
"""Pictures of batches of which each process holds a part."""

import pytest

from tests.multiprocess.launching import PROGRAMS, reports, run_processes

pytestmark = pytest.mark.multiprocess


def test_show_draws_the_rows_that_a_process_holds_whole_on_a_device() -> None:
    outputs = run_processes(PROGRAMS / "local_rows.py", processes=2, devices=2)
    for output, half in zip(outputs, ([0, 1], [2, 3]), strict=True):
        assert reports(output) == {
            "by_host": str(half),
            "by_device": "[0, 1, 2, 3]",
            "whole": "[0, 1, 2, 3]",
            "cut_within": "[]",
            "cut_between": "[]",
        }
