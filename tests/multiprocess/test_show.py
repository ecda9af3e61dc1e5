# SPDX-License-Identifier: Apache-2.0
"""Pictures of batches that lie on several processes."""

import pytest

from tests.multiprocess.launching import Launches, reports

# A launch runs several programs.
pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]


def test_show_draws_the_rows_that_a_process_holds_whole_on_a_device(launches: Launches) -> None:
    outputs = launches.outputs("local_rows", processes=2, devices=2)
    for output, half in zip(outputs, ([0, 1], [2, 3]), strict=True):
        assert reports(output) == {
            "by_host": str(half),
            "by_device": "[0, 1, 2, 3]",
            "whole": "[0, 1, 2, 3]",
            "cut_within": "[]",
            "cut_between": "[]",
        }
