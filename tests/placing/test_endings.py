# SPDX-License-Identifier: Apache-2.0
"""However a program ends, it does: with its own code, and no word but its own."""

import code
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = Path(__file__).parents[2]
HANG_SECONDS = 100


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


@pytest.mark.parametrize(
    ("case", "signal_sent", "returncode", "traceback_of"),
    [
        ("end of the program", None, 0, None),
        ("exit code", None, 3, None),
        ("error in the loop", None, 1, "OSError: of the loop"),
        ("sigint", signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"),
        ("sigterm", signal.SIGTERM, -signal.SIGTERM, None),
        ("sigterm handled", signal.SIGTERM, 128 + signal.SIGTERM, None),
    ],
)
def test_program_ends_with_live_iterators_one_of_them_blocked(
    case: str, signal_sent: signal.Signals | None, returncode: int, traceback_of: str | None
) -> None:
    process = start("end_with_live_iterator.py", case)
    if signal_sent is not None:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal_sent)
    _, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == returncode, errors
    assert errors.count("Traceback") == (traceback_of is not None), errors
    if traceback_of is not None:
        assert errors.index("Traceback") < errors.index(f"\n{traceback_of}"), errors
    # SIGTERM, unhandled, ends a process at once. Else the source that nobody can cancel is named.
    assert (returncode == -signal.SIGTERM) != ("its thread has not ended in 1.5 s" in errors)
    for word in ("terminate", "Fatal", "FATAL", "Exception ignored"):
        assert word not in errors


@pytest.mark.parametrize(("ending", "returncode"), [("exit", 3), ("error", 1)])
def test_program_ends_while_tf_data_reads(
    numbers_folder: str, ending: str, returncode: int
) -> None:
    process = start("end_with_live_pipeline.py", numbers_folder, ending)
    _, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == returncode, errors
    assert ("RecordError: It is damaged." in errors) == (ending == "error"), errors
    for word in ("terminate", "Fatal", "FATAL", "Timeout", "Exception ignored"):
        assert word not in errors


CELL = """
batches = Prefetcher(itertools.count(), str, depth=2)
for batch in batches:
    if batch == "3":
        raise OSError("of the loop")
"""


def test_notebook_cell_run_again_leaves_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback that the shell keeps of the first run does not keep its iterator."""
    shell = code.InteractiveInterpreter()
    shell.runcode(compile("import itertools", "<cell>", "exec"))
    shell.runcode(
        compile("from tfjax_batches.placing.prefetcher import Prefetcher", "<cell>", "exec")
    )
    threads: set[threading.Thread] = set()
    for _ in range(3):
        shell.runcode(compile(CELL, "<cell>", "exec"))
        threads |= {t for t in threading.enumerate() if t.name == "tfjax_batches-prefetch"}
    assert capsys.readouterr().err.count("OSError: of the loop") == 3
    batches = shell.locals["batches"]
    last = batches._producer.thread
    for thread in threads - {last}:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
    assert last.is_alive()
    batches.close()
    assert not last.is_alive()
