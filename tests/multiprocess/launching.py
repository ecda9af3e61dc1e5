# SPDX-License-Identifier: Apache-2.0
"""Runs a program as several real JAX processes, and shows all their output when it fails."""

import sys
from pathlib import Path

from tfjax_batches.launch.launcher import launch

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_SECONDS = 240


def run_processes(
    program: Path, *arguments: str, processes: int, devices: int = 1
) -> tuple[str, ...]:
    """Return what each process printed; fail with all of it unless all ended well."""
    result = launch(
        [sys.executable, str(program), *arguments],
        processes=processes,
        devices_per_process=devices,
        timeout_seconds=TIMEOUT_SECONDS,
        env={"PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"},
        echo=False,
    )
    if result.returncode:
        outputs = "\n".join(f"--- process {i}\n{out}" for i, out in enumerate(result.outputs))
        raise AssertionError(f"{program.name} ended with {result.returncode}\n{outputs}")
    return result.outputs


def reports(output: str) -> dict[str, str]:
    """Return the `name: value` lines of a program's output."""
    lines = [line.partition(": ") for line in output.splitlines()]
    return {name: value for name, colon, value in lines if colon and name.isidentifier()}
