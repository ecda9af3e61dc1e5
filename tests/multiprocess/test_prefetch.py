# SPDX-License-Identifier: Apache-2.0
"""The threads of several processes need not keep step for their collectives to."""

import pytest

from tests.multiprocess.launching import Launches, reports

# A launch runs several programs.
pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]


def test_collectives_with_producers_that_sleep_at_random_do_not_deadlock(
    launches: Launches,
) -> None:
    outputs = launches.outputs("sum_steps", processes=2, devices=2)
    assert len({reports(output)["total"] for output in outputs}) == 1
