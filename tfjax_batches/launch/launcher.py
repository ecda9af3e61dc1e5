# SPDX-License-Identifier: Apache-2.0
"""The launcher: starts the processes, shows their output, and ends them all.

Holds at all times: when a launch is over, however it ended, no process of it is left. Lines of two
processes never mix.
"""

import argparse
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple

from tfjax_batches.errors import ConfigError
from tfjax_batches.launch.distributed import INDEX_VARIABLE, environment

_GRACE_SECONDS = 3.0  # from SIGTERM to SIGKILL, so that a program can clean up
_POLL_SECONDS = 0.02
_KEPT_LINES = 10_000  # a run may print for days


class LaunchResult(NamedTuple):
    """How a launch ended.

    Attributes:
        returncode: 0 when every process ended with 0; else the exit code of the first that
            failed, 128 + n when signal n ended it; 124 after the time limit.
        reason: Names the process that failed first, or those that were late. Empty: none.
        outputs: The last 10,000 lines of stdout and stderr of each process, by process index.
    """

    returncode: int
    reason: str
    outputs: tuple[str, ...]


def launch(
    command: Sequence[str],
    *,
    processes: int,
    devices_per_process: int = 1,
    timeout_seconds: float | None = None,
    env: Mapping[str, str] | None = None,
    echo: bool = True,
) -> LaunchResult:
    """Run a command as several local JAX processes, and wait for all of them.

    When one fails, or an exception such as `KeyboardInterrupt` ends this call, the others are
    ended: by SIGTERM, and 3 seconds later by SIGKILL.

    Args:
        command: Program and arguments, the same for each process.
        processes: Number of processes.
        devices_per_process: CPU devices that each process shows to JAX.
        timeout_seconds: Ends all processes when they take longer. None: no limit.
        env: Variables to add to the environment of this process, or to replace there.
        echo: Print each line to stdout as it comes, after `[process] `, and the reason of a
            failure to stderr.

    Returns:
        The exit code and the output of each process.

    Raises:
        ConfigError: There are no processes.
        OSError: The command cannot be started.
    """
    if processes < 1:
        raise ConfigError(f"A launch has a process or more; got {processes=}. Pass processes=1.")
    shared = environment({**os.environ, **(env or {})}, processes, devices_per_process)
    outputs: list[deque[str]] = [deque(maxlen=_KEPT_LINES) for _ in range(processes)]
    children: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    printing = threading.Lock()
    try:
        for index, lines in enumerate(outputs):
            child = _start(command, {**shared, INDEX_VARIABLE: str(index)})
            children.append(child)
            prefix = f"[{index}] " if echo else None
            arguments = (child.stdout, lines, prefix, printing)
            readers.append(threading.Thread(target=_read, args=arguments, daemon=True))
            readers[-1].start()
        returncode, reason = _wait(children, timeout_seconds)
    finally:
        _end(children, readers)
    if echo and reason:
        print(f"launch: {reason}", file=sys.stderr, flush=True)
    texts = tuple("".join(lines.copy()) for lines in outputs)
    return LaunchResult(returncode, reason, texts)


def _start(command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a process that leads a process group of its own."""
    return subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def _read(pipe: IO[str], lines: deque[str], prefix: str | None, printing: threading.Lock) -> None:
    """Keep the lines that a process prints, and print them after `prefix`, if there is one."""
    # If nobody reads our own stdout any more, closing the pipe ends the process too.
    with pipe, contextlib.suppress(BrokenPipeError):
        for line in pipe:
            lines.append(line)
            if prefix is not None:
                with printing:
                    print(prefix + line.rstrip("\n"), flush=True)


def _wait(children: list[subprocess.Popen[str]], timeout_seconds: float | None) -> tuple[int, str]:
    """Return exit code and reason, once the launch is over."""
    deadline = time.monotonic() + (math.inf if timeout_seconds is None else timeout_seconds)
    while True:
        statuses = [_status(child) for child in children]
        for index, status in enumerate(statuses):
            if status:
                code, how = status, f"exit code {status}"
                if status < 0:
                    code, how = 128 - status, f"signal {-status} ({signal.strsignal(-status)})"
                return code, f"process {index} of {len(children)} failed with {how}."
        if None not in statuses:
            return 0, ""
        if time.monotonic() >= deadline:
            late = ", ".join(str(i) for i, status in enumerate(statuses) if status is None)
            return 124, f"not done after {timeout_seconds} s: process {late}."
        time.sleep(_POLL_SECONDS)


def _status(child: subprocess.Popen[str]) -> int | None:
    """Return the exit code or minus the signal; None while it runs.

    Unlike `poll`, this does not free the process id, which is also that of the group to signal.
    """
    found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _end(children: list[subprocess.Popen[str]], readers: list[threading.Thread]) -> None:
    """End the processes and everything they started."""
    deadline = time.monotonic() + _GRACE_SECONDS
    try:
        _signal_groups(children, signal.SIGTERM)
        for reader in readers:  # ends with the last process that can print
            reader.join(max(0.0, deadline - time.monotonic()))
    finally:
        _signal_groups(children, signal.SIGKILL)
        for child in children:
            child.wait()
        for reader in readers:
            reader.join(1.0)  # a process that left the group may hold the pipe for ever


def _signal_groups(children: list[subprocess.Popen[str]], signum: int) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all of it has ended
            os.killpg(child.pid, signum)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code of the launch, or 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tfjax_batches.launch",
        usage="%(prog)s --processes N [options] -- COMMAND [ARGUMENT ...]",
    )
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--devices-per-process", type=int, default=1, help="default: 1")
    parser.add_argument("--timeout-seconds", type=float, help="default: no limit")
    parser.add_argument("command", nargs="+", help="such as: python scripts/train.py")
    try:
        return launch(**vars(parser.parse_args(argv))).returncode
    except (ConfigError, OSError) as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
