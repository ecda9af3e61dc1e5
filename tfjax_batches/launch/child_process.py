# SPDX-License-Identifier: Apache-2.0
"""One process of a launch, and its output.

A child leads a session of its own and is reaped only after its whole process group was killed:
until then the system gives its id to no other process.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

# Only the end of a longer output is kept, because a run may print for days.
_KEPT_BYTES = 1 << 20
# A longer line, such as that of a progress bar, is shown in pieces.
_LINE_BYTES = 1 << 16
_JOIN_SECONDS = 1.0


class ChildProcess:
    """One process of a launch, leader of its own session and process group.

    A thread reads its output.

    Args:
        command: Program and arguments.
        env: Its environment.
        prefix: Put before each line that is printed. None: nothing is printed.
        printing: Held while a line is printed.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        prefix: str | None,
        printing: threading.Lock,
    ) -> None:
        self._prefix = prefix
        self._printing = printing
        self._kept = bytearray()
        self._process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def output(self) -> str:
        """Return the last 1 MiB of what was printed so far."""
        return bytes(self._kept).decode(errors="replace")

    def status(self) -> int | None:
        """Return the exit code or minus the signal, without reaping; None while it runs."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if (found := os.waitid(os.P_PID, self._process.pid, flags)) is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def is_over(self) -> bool:
        """Return whether it ended, with everything it started that could still print."""
        return not self._reader.is_alive() and self.status() is not None

    def signal_group(self, signum: int) -> None:
        """Send a signal to the process and to what it started, if any of them is left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signum)

    def reap(self) -> None:
        """Wait for the killed process and its last output."""
        self._process.wait()
        # Not for ever: a process that left the group may hold the pipe.
        self._reader.join(_JOIN_SECONDS)
        self._prefix = None

    def _read(self) -> None:
        assert self._process.stdout is not None
        # If nobody reads our own stdout any more, closing the pipe ends the child too.
        with self._process.stdout as pipe, contextlib.suppress(BrokenPipeError):
            while line := pipe.readline(_LINE_BYTES):
                self._kept += line
                del self._kept[:-_KEPT_BYTES]
                if self._prefix is not None:
                    # Of a line that was drawn repeatedly, as by a progress bar, the last state.
                    last = line.rstrip(b"\r\n").rpartition(b"\r")[2].decode(errors="replace")
                    self._print(f"{self._prefix}{last}\n")

    def _print(self, line: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        with self._printing:
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding))
            sys.stdout.flush()
