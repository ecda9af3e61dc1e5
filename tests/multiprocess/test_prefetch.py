# SPDX-License-Identifier: Apache-2.0
"""The threads of several processes need not keep step for their collectives to."""

import pytest

from tests.multiprocess.launching import PROGRAMS, reports, run_processes

pytestmark = pytest.mark.multiprocess


def test_collectives_with_producers_that_sleep_at_random_do_not_deadlock() -> None:
    outputs = run_processes(PROGRAMS / "sum_steps.py", processes=2, devices=2)
    assert len({reports(output)["total"] for output in outputs}) == 1
