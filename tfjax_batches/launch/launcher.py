# SPDX-License-Identifier: Apache-2.0
"""The launcher: starts the processes, shows their output, and ends them all.

Holds at all times: when a launch is over, however it ended (all done, one failed, time limit,
Ctrl-C, SIGTERM, SIGHUP), no process of it is left. Lines of two processes never mix.
"""

import argparse
import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.launch.child_process import ChildProcess
from tfjax_batches.launch.distributed import INDEX_VARIABLE, environment

# From SIGTERM to SIGKILL, so that a program can clean up.
_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.02

# Exit codes of GNU timeout and the shell; 128 + n stands for signal n.
_TIMED_OUT, _NOT_STARTED, _NOT_FOUND, _SIGNAL_BASE = 124, 126, 127, 128


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """How a launch ended.

    Attributes:
        returncode: 0 when every process ended with 0; else the exit code of the first that
            failed, 128 + n when signal n ended it; 124 after the time limit; 127 or 126 when
            the command does not exist or cannot be started.
        outputs: stdout and stderr of each process, together, by process index; of each at most the
            last 1 MiB.
        failed_process: Index of the process that failed first. None: none failed by itself.
        timed_out: Whether `timeout_seconds` passed before all were done.
    """

    returncode: int
    outputs: tuple[str, ...] = ()
    failed_process: int | None = None
    timed_out: bool = False


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

    When one fails, the others are ended: by SIGTERM, and 3 seconds later by SIGKILL. The same
    happens when a signal interrupts this process; the signal then takes its usual effect here.

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
        ConfigError: The command is empty, or a number is not positive.

    Example::

        result = launch(["python", "scripts/train.py"], processes=4, timeout_seconds=600)
    """
    _check(command, processes, devices_per_process, timeout_seconds)
    base = environment({**os.environ, **(env or {})}, processes, devices_per_process)
    with _Launch(echo=echo) as running:
        try:
            for index in range(processes):
                running.start(command, {**base, INDEX_VARIABLE: str(index)})
        except OSError as error:
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED
            index = len(running.children)
            reason = f"process {index} cannot be started: {error.strerror}: {command[0]!r}."
            ending = LaunchResult(returncode=code, failed_process=index)
        else:
            ending, reason = running.watch(timeout_seconds)
    if echo and reason:
        print(f"launch: {reason}", file=sys.stderr, flush=True)
    outputs = [child.output() for child in running.children]
    outputs += [""] * (processes - len(outputs))
    return dataclasses.replace(ending, outputs=tuple(outputs))


def _check(
    command: Sequence[str],
    processes: int,
    devices_per_process: int,
    timeout_seconds: float | None,
) -> None:
    """Raise ConfigError for arguments that describe no launch."""
    if isinstance(command, str) or not command or not all(isinstance(c, str) for c in command):
        raise ConfigError(
            f"A command is a program and its arguments, one string each; got command={command!r}. "
            "Pass command=['python', 'train.py'], or `-- python train.py` on the command line."
        )
    counts = {"processes": processes, "devices_per_process": devices_per_process}
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(
                "A launch has at least one process, and one device in each; got "
                f"{name}={value!r}. Pass {name}=1 or more."
            )
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise ConfigError(
            f"A time limit is positive; got timeout_seconds={timeout_seconds}. Pass more seconds, "
            "or leave timeout_seconds out for no limit."
        )


class _Launch:
    """The processes of one launch; after the `with` block none of them is left.

    Inside the block, signals that would end this process are only recorded, so that none can
    interrupt the cleanup. Afterwards the earlier handlers are back, and the first signal is raised
    again.
    """

    def __init__(self, *, echo: bool) -> None:
        self.children: list[ChildProcess] = []
        self._echoes = echo
        self._printing = threading.Lock()
        self._signals: list[int] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "_Launch":
        # Python allows handlers in the main thread only, and runs them there.
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                handler = signal.getsignal(signum)
                # Ignored signals stay ignored (nohup); None is one that Python cannot restore.
                if handler not in (signal.SIG_IGN, None):
                    self._handlers[signum] = handler
                    signal.signal(signum, self._record)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_children()
        finally:
            for signum, handler in self._handlers.items():
                signal.signal(signum, handler)
        if self._signals:
            signal.raise_signal(self._signals[0])

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the next process."""
        prefix = f"[{len(self.children)}] " if self._echoes else None
        self.children.append(ChildProcess(command, env, prefix, self._printing))

    def watch(self, timeout_seconds: float | None) -> tuple[LaunchResult, str]:
        """Wait until the launch is over; return the result and the reason of a failure.

        Args:
            timeout_seconds: Time limit. None: no limit.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            time.sleep(_POLL_SECONDS)
            statuses = [child.status() for child in self.children]
            for index, status in enumerate(statuses):
                if status:
                    code, how = status, f"exit code {status}"
                    if status < 0:
                        code = _SIGNAL_BASE - status
                        how = f"signal {-status} ({signal.strsignal(-status)})"
                    reason = f"process {index} of {len(statuses)} failed with {how}."
                    return LaunchResult(returncode=code, failed_process=index), reason
            if None not in statuses:
                return LaunchResult(returncode=0), ""
            if self._signals:
                return LaunchResult(returncode=_SIGNAL_BASE + self._signals[0]), "interrupted."
            if deadline is not None and time.monotonic() >= deadline:
                late = ", ".join(str(i) for i, status in enumerate(statuses) if status is None)
                reason = f"not done after {timeout_seconds} s: process {late}."
                return LaunchResult(returncode=_TIMED_OUT, timed_out=True), reason

    def _end_children(self) -> None:
        """End the children and everything they started, and reap them."""
        deadline = time.monotonic() + _GRACE_SECONDS
        try:
            for child in self.children:
                if not child.is_over():
                    child.signal_group(signal.SIGTERM)
            while time.monotonic() < deadline and not all(c.is_over() for c in self.children):
                time.sleep(_POLL_SECONDS)
        finally:
            for child in self.children:
                child.signal_group(signal.SIGKILL)
            for child in self.children:
                child.reap()

    def _record(self, signum: int, _: FrameType | None) -> None:
        self._signals.append(signum)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfjax_batches.launch",
        usage="%(prog)s --processes N [options] -- COMMAND [ARGUMENT ...]",
        description="Run a command as several JAX processes on this machine, on CPU.",
        epilog="example:\n  %(prog)s --processes 4 -- python scripts/train.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example on one line
        allow_abbrev=False,
    )
    parser.add_argument("--processes", type=int, required=True, help="number of processes")
    parser.add_argument(
        "--devices-per-process", type=int, default=1, help="CPU devices in each (default: 1)"
    )
    parser.add_argument("--timeout-seconds", type=float, help="time limit (default: none)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Its words. None: those of this process.

    Returns:
        The exit code: that of the launch; 2 for wrong arguments; 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # Versions of argparse differ in how they treat "--".
    cut = words.index("--") if "--" in words else len(words)
    parser = _parser()
    options = parser.parse_args(words[:cut])
    if cut == len(words):
        parser.error("the command comes after --, as in: --processes 4 -- python train.py")
    try:
        return launch(words[cut + 1 :], **vars(options)).returncode
    except ConfigError as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _SIGNAL_BASE + signal.SIGINT
