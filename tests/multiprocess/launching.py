# SPDX-License-Identifier: Apache-2.0
"""Runs programs as several real JAX processes, and shows all their output when one fails."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfjax_batches.launch.launcher import launch

REPOSITORY = Path(__file__).parents[2]
RUN_IN_TURN = Path(__file__).parent / "programs" / "run_in_turn.py"
TIMEOUT_SECONDS = 240


class Launches:
    """Launches each topology once, when its outputs are first asked for.

    Args:
        programs: (processes, devices in each) → name of a program → its arguments. The programs of
            a topology run in turn, in the same processes. The first topology runs before any other.
    """

    def __init__(self, programs: Mapping[tuple[int, int], Mapping[str, Sequence[str]]]) -> None:
        self._programs = programs
        self._outcomes: dict[tuple[int, int], list[dict[str, str]] | AssertionError] = {}

    def outputs(self, program: str, processes: int, devices: int) -> list[str]:
        """Return what a program printed on each process.

        Raises:
            AssertionError: A program failed on this topology; holds all output of all processes.
        """
        for topology in (next(iter(self._programs)), (processes, devices)):
            if topology not in self._outcomes:
                self._outcomes[topology] = self._launch(*topology)
        outcome = self._outcomes[processes, devices]
        if isinstance(outcome, AssertionError):
            raise outcome
        return [output[program] for output in outcome]

    def _launch(self, processes: int, devices: int) -> list[dict[str, str]] | AssertionError:
        programs = json.dumps(self._programs[processes, devices])
        try:
            outputs = run_processes(RUN_IN_TURN, programs, processes=processes, devices=devices)
        except AssertionError as error:
            return error
        return [_by_program(output) for output in outputs]


def _by_program(output: str) -> dict[str, str]:
    parts = [part.partition("\n") for part in f"\n{output}".split("\n=== ")]
    return {name: text for name, _, text in parts[1:]}


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
