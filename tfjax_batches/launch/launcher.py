# SPDX-License-Identifier: Apache-2.0
"""Start several JAX processes on this machine, on CPU, for demos and tests.

From a shell::

    python -m tfjax_batches.launch --processes 4 -- python scripts/train.py

and from Python with `launch`. The program that is started calls `initialize` before JAX is used.

What holds at all times: when a launch is over, however it ended (all done, one failed, time
limit, Ctrl-C, SIGTERM, SIGHUP), no process of it is left. One thread does it all, so that lines
of two processes never mix.
"""

import argparse
import dataclasses
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.launch.child_process import ChildProcess, Output
from tfjax_batches.launch.distributed import INDEX_VARIABLE, SIGNAL_BASE, environment, initialize

__all__ = ["LaunchResult", "initialize", "launch", "main"]

# From SIGTERM to SIGKILL, for a program that wants to put its things in order.
GRACE_SECONDS = 3.0
# The end of a child wakes the launcher through its pipe, unless another process holds that too.
_POLL_SECONDS = 0.05

# Exit codes as GNU timeout and the shell have them: not startable, not there.
_TIMED_OUT, _NOT_STARTED, _NOT_FOUND = 124, 126, 127


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """How a launch ended.

    Attributes:
        returncode: 0 when every process ended with 0; else the exit code of the first that
            failed, 128 + n when signal n ended it; 124 after the time limit; 127 or 126 when
            the command does not exist or cannot be started.
        outputs: stdout and stderr of each process, together, by process index.
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
    """Run a command as that many local JAX processes, and wait for all of them.

    When one fails, the others are ended: SIGTERM, and SIGKILL after a short grace. So they are
    when this process is interrupted, and the signal then takes its usual course here.

    Args:
        command: Program and arguments, the same for each process.
        processes: Number of processes.
        devices_per_process: CPU devices that each process shows to JAX.
        timeout_seconds: Ends all processes when they take longer. None: no limit.
        env: Variables to add to the environment of this process, or to set over it.
        echo: Print each line to stdout as it comes, after `[process] `, and why the launch
            failed to stderr.

    Returns:
        The exit code and what each process printed.

    Raises:
        ConfigError: If the command is empty or a number is not positive.
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
    outputs = [child.output.text() for child in running.children]
    outputs += [""] * (processes - len(outputs))
    return dataclasses.replace(ending, outputs=tuple(outputs))


def _check(
    command: Sequence[str],
    processes: int,
    devices_per_process: int,
    timeout_seconds: float | None,
) -> None:
    """Raise `ConfigError` for arguments that describe no launch."""
    if isinstance(command, str) or not command or not all(isinstance(c, str) for c in command):
        raise ConfigError(
            "The command must be a program and its arguments, one string each; got "
            f"command={command!r}. Pass command=['python', 'train.py'], on the command line "
            "`-- python train.py`."
        )
    counts = {"processes": processes, "devices_per_process": devices_per_process}
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(
                "A launch needs at least one process, and one device in each; got "
                f"{name}={value!r}. Pass {name}=1 or more."
            )
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise ConfigError(
            f"A time limit must be positive; got timeout_seconds={timeout_seconds}. Pass more "
            "seconds, or leave timeout_seconds out for no limit."
        )


class _Launch:
    """The processes of one launch; on leaving the `with` block none of them is left.

    Signals that end this process are only noted meanwhile, so that none can interrupt the
    clearing away; afterwards the handlers of before are back and the first is raised anew.
    """

    def __init__(self, *, echo: bool) -> None:
        self.children: list[ChildProcess] = []
        self._stream = sys.stdout if echo else None
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "_Launch":
        # Python allows handlers in the main thread only, and runs them there.
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                handler = signal.getsignal(signum)
                # What is ignored stays so (nohup). None: one that Python could not put back.
                if handler not in (signal.SIG_IGN, None):
                    self._handlers[signum] = handler
                    signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_children()
        finally:
            self._selector.close()
            for signum, handler in self._handlers.items():
                signal.signal(signum, handler)
        if self._signals:
            signal.raise_signal(self._signals[0])

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the next process."""
        child = ChildProcess(command, env, Output(f"[{len(self.children)}] "))
        self.children.append(child)
        self._selector.register(child.pipe, selectors.EVENT_READ, child)

    def watch(self, timeout_seconds: float | None) -> tuple[LaunchResult, str]:
        """Pass output on until all ended well or must be ended; return which, and why."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            self._pass_on()
            statuses = [child.status() for child in self.children]
            for index, status in enumerate(statuses):
                if status:
                    code, how = status, f"exit code {status}"
                    if status < 0:
                        code = SIGNAL_BASE - status
                        how = f"signal {-status} ({signal.strsignal(-status)})"
                    reason = f"process {index} of {len(statuses)} failed with {how}."
                    return LaunchResult(returncode=code, failed_process=index), reason
            if None not in statuses:
                return LaunchResult(returncode=0), ""
            if self._signals:
                return LaunchResult(returncode=SIGNAL_BASE + self._signals[0]), "interrupted."
            if deadline is not None and time.monotonic() >= deadline:
                late = ", ".join(str(i) for i, status in enumerate(statuses) if status is None)
                reason = f"not done after {timeout_seconds} s: process {late}."
                return LaunchResult(returncode=_TIMED_OUT, timed_out=True), reason

    def _end_children(self) -> None:
        """End what is left of the children and of all that they started, and reap them."""
        deadline = time.monotonic() + GRACE_SECONDS
        impatient = len(self._signals) + 1  # one more Ctrl-C cuts the grace short
        try:
            for child in self.children:
                if not child.is_over():
                    child.signal_group(signal.SIGTERM)
            while not all(child.is_over() for child in self.children):
                if time.monotonic() >= deadline or len(self._signals) >= impatient:
                    break
                self._pass_on()
        finally:
            for child in self.children:
                child.signal_group(signal.SIGKILL)
            for child in self.children:
                self._echo(child.reap())

    def _pass_on(self) -> None:
        """Wait a moment for output, and pass on some from each process that has any."""
        for key, _ in self._selector.select(_POLL_SECONDS):
            self._echo(key.data.read() or "")
            if key.data.at_end:
                self._selector.unregister(key.fileobj)

    def _echo(self, text: str) -> None:
        if self._stream is None or not text:
            return
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except BrokenPipeError:
            # `launch … | head`: nobody reads any more. What is still buffered must go
            # somewhere when Python exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            self._stream = None
            self._note(signal.SIGPIPE, None)

    def _note(self, signum: int, _: FrameType | None) -> None:
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
    parser.add_argument("--processes", type=int, required=True, help="how many to start")
    parser.add_argument(
        "--devices-per-process", type=int, default=1, help="CPU devices in each (default: 1)"
    )
    parser.add_argument(
        "--timeout-seconds", type=float, help="end all of them after that time (default: never)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # argparse treats "--" before a remainder differently from one Python to the next.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    if "--" not in arguments and not {"-h", "--help"} & set(arguments):
        _parser().error(
            "the command to run comes after --, as in: --processes 4 -- python train.py"
        )
    options = _parser().parse_args(arguments[:cut])
    try:
        return launch(arguments[cut + 1 :], **vars(options)).returncode
    except ConfigError as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # By the signal, not by a code, so that a shell script around this one stops too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
        return SIGNAL_BASE + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
