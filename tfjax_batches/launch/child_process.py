# SPDX-License-Identifier: Apache-2.0
"""One process of a launch, and what it prints.

A child leads a session of its own and is reaped only after its whole group was killed: until then
its id cannot come to mean another process.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence

# How often a line that is drawn over and over (a progress bar) is shown as it stands.
REDRAW_SECONDS = 5.0


class ChildProcess:
    """One process of a launch, leader of its own session and process group."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], output: "Output") -> None:
        self.output = output
        self.at_end = False
        self._process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # for the type checker
        self.pipe = self._process.stdout
        os.set_blocking(self.pipe.fileno(), False)

    def read(self) -> str | None:
        """Read some of what the pipe holds; return the lines to show. None: it is empty now."""
        try:
            chunk = os.read(self.pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return None
        self.at_end = not chunk
        return self.output.feed(chunk)

    def status(self) -> int | None:
        """Return exit code or minus signal, without reaping. None: it runs."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if (found := os.waitid(os.P_PID, self._process.pid, flags)) is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def is_over(self) -> bool:
        """Whether it ended, and all that it started and that could still print."""
        return self.at_end and self.status() is not None

    def signal_group(self, signum: int) -> None:
        """Send a signal to the process and to what it started, as far as it is left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signum)

    def reap(self) -> str:
        """Wait for the killed process; return the last lines to show."""
        self._process.wait()
        shown = ""
        # What was in the pipe, and no more: a process that left the group may write for ever.
        for _ in range(16):
            if self.at_end or (text := self.read()) is None:
                break
            shown += text
        self.pipe.close()
        return shown + self.output.flush()


class Output:
    """What one process prints: all of it, and cut into prefixed lines as it comes."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._all = bytearray()
        self._partial = bytearray()
        self._next_redraw = 0.0

    def feed(self, chunk: bytes) -> str:
        """Take the next bytes, which may end anywhere; return the whole lines so far."""
        self._all += chunk
        self._partial += chunk
        lines: list[bytearray] = []
        if b"\n" in chunk:
            *lines, self._partial = self._partial.split(b"\n")
        # A line drawn over itself grows for as long as its progress bar runs. The last byte is
        # left alone: it may be the first half of a line end "\r\n".
        if (cut := self._partial.rfind(b"\r", 0, -1)) >= 0:
            drawn = self._partial[:cut]
            if drawn and time.monotonic() >= self._next_redraw:
                lines.append(drawn)
                self._next_redraw = time.monotonic() + REDRAW_SECONDS
            del self._partial[: cut + 1]
        return "".join(map(self._shown, lines))

    def flush(self) -> str:
        """Return the last line, if its end is missing."""
        line, self._partial = self._partial, bytearray()
        return self._shown(line) if line else ""

    def text(self) -> str:
        """Return all that was printed."""
        return self._all.decode(errors="replace")

    def _shown(self, line: bytearray) -> str:
        # Of a line that was drawn over itself, what a terminal would show in the end.
        last = line.rstrip(b"\r").rpartition(b"\r")[2]
        return f"{self._prefix}{last.decode(errors='replace')}\n"
