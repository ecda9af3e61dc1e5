# SPDX-License-Identifier: Apache-2.0
"""A run that is killed, stopped and moved to other processes ends like one that was not."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.multiprocess.conftest import TRAIN_STEPS
from tests.multiprocess.launching import (
    REPOSITORY,
    TIMEOUT_SECONDS,
    Launches,
    reports,
    run_processes,
)

# A launch runs several programs.
pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]


def flags_of_training(data_dir: str, *flags: str) -> list[str]:
    return [
        f"--config={REPOSITORY}/configs/digits.py",
        f"--config.batches.data_dir={data_dir}",
        "--config.mesh=data=2,model=2",
        f"--config.num_steps={TRAIN_STEPS}",
        "--config.checkpoint_every=20",
        *flags,
    ]


def interrupt_training(
    signum: int, workdir: Path, flags: list[str], processes: int, devices: int
) -> tuple[int, str]:
    """Train until another checkpoint or two are there; send a signal; return exit code, output.

    SIGKILL goes to one process of the run, SIGTERM to the launcher.
    """
    launcher = subprocess.Popen(
        [
            *(sys.executable, "-m", "tfjax_batches.launch"),
            *("--processes", str(processes), "--devices-per-process", str(devices), "--"),
            *(sys.executable, str(REPOSITORY / "scripts" / "train.py"), *flags),
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        enough = len(steps_saved(workdir)) + random.randint(1, 2)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(steps_saved(workdir)) < enough and time.monotonic() < deadline:
            assert launcher.poll() is None, launcher.communicate()[0]
            time.sleep(0.02)
        time.sleep(random.random() / 2)
        target = launcher.pid
        if signum == signal.SIGKILL:
            children = Path(f"/proc/{target}/task/{target}/children").read_text().split()
            target = int(random.choice(children))
        os.kill(target, signum)
        output, _ = launcher.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        launcher.kill()
    return launcher.returncode, output


def steps_saved(workdir: Path) -> set[str]:
    """Return the steps that a checkpoint was ever seen of: Orbax keeps the last two."""
    found = {path.name for path in workdir.glob("*") if path.name.isdigit()}
    seen = workdir.parent / "seen"
    names = set(seen.read_text().split()) if seen.exists() else set()
    seen.write_text(" ".join(names | found))
    return names | found


def test_killed_and_stopped_training_ends_as_if_never_interrupted(
    launches: Launches, digits_data_dir: str, tmp_path: Path
) -> None:
    whole = reports(launches.outputs("train_digits", processes=2, devices=2)[0])
    workdir = tmp_path / "run"
    flags = flags_of_training(digits_data_dir, f"--workdir={workdir}")
    code, output = interrupt_training(signal.SIGKILL, workdir, flags, processes=2, devices=2)
    assert code == 128 + signal.SIGKILL, output
    assert "failed with signal 9 (Killed)" in output
    code, output = interrupt_training(signal.SIGTERM, workdir, flags, processes=4, devices=1)
    assert code == 128 + signal.SIGTERM, output
    assert "restored_at_step: " in output
    resumed = run_processes(REPOSITORY / "scripts" / "train.py", *flags, processes=1, devices=4)[0]
    assert int(reports(resumed)["restored_at_step"]) > 0
    for name in ("train_steps", "train_ids_digest"):
        assert reports(resumed)[name] == whole[name]
    assert float(reports(resumed)["final_loss"]) == pytest.approx(
        float(whole["final_loss"]), abs=1e-4
    )
    assert reports(resumed)["test_examples_evaluated_once"] == "360"
