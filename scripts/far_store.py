# SPDX-License-Identifier: Apache-2.0
"""A store with latency: mounts a folder, read-only, so that every request takes its time.

    python scripts/far_store.py SOURCE MOUNT [--latency 0.03] [--bandwidth 200e6]

Each request waits for the latency; all of them share the bandwidth. A request lists a folder, with
the sizes of its files, or reads; of a read above 1 MiB, which Linux cuts in pieces, only the first
piece waits for the latency. Linux caches no content (`direct_io`), so that each reader fetches what
it reads.
`user.requests` and `user.bytes`, extended attributes of MOUNT, count what was asked for. Ends with
Ctrl-C or when the mount is taken away. Needs the `bench` extra, libfuse 3 (Debian: libfuse3-3) and
/dev/fuse; without root also `fusermount3` (Debian: fuse3).
"""

import argparse
import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

LATENCY = 0.03
BANDWIDTH = 200e6

_THREADS = 128  # requests at the same time
_CACHED_SECONDS = 3600  # look-ups: the folder does not change
_SAME_READ_SECONDS = 0.05  # from a piece to the next one of the same read
_ENDED_BY_SIGNAL = 8  # what libfuse returns after it has unmounted
_START_SECONDS = 20


class Link:
    """Lets requests wait as a network does; counts them.

    Args:
        latency: Seconds from a request to its first byte.
        bandwidth: Bytes a second, of all requests together.
    """

    def __init__(self, latency: float, bandwidth: float) -> None:
        self._latency, self._bandwidth = latency, bandwidth
        self._free_at = 0.0  # when all bytes asked for so far have come
        self._lock = threading.Lock()
        self.requests = self.bytes = 0

    def wait(self, num_bytes: int, *, is_new: bool = True) -> None:
        """Wait until so many bytes have come, of a new request or of one that goes on."""
        if is_new:
            time.sleep(self._latency)
        with self._lock:
            self.requests += is_new
            self.bytes += num_bytes
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + num_bytes / self._bandwidth
            pause = self._free_at - now
        time.sleep(pause)


class FarFolder:
    """The operations of a read-only file system that passes on what a folder has.

    Args:
        source: The folder.
        link: What each request waits for.
    """

    use_ns = True

    def __init__(self, source: str, link: Link) -> None:
        self._source, self._link = source, link
        self._ends: dict[tuple[int, int], float] = {}  # of pieces, by file and offset: when

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """Return size, mode and times of a file."""
        found = os.lstat(self._source + path)
        times = {key: getattr(found, f"{key}_ns") for key in ("st_atime", "st_mtime", "st_ctime")}
        keys = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_blocks")
        return {**{key: getattr(found, key) for key in keys}, **times}

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """Return a count."""
        counts = {"user.requests": self._link.requests, "user.bytes": self._link.bytes}
        if name not in counts:
            raise OSError(errno.ENODATA, name)
        return str(counts[name]).encode()

    def readdir(self, path: str, fh: int) -> list[str]:
        """Return the names of a folder."""
        self._link.wait(0)
        return [".", "..", *os.listdir(self._source + path)]

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, path)
        return os.open(self._source + path, os.O_RDONLY)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Return bytes of a file."""
        begun = self._ends.pop((fh, offset), 0.0)
        is_new = begun < time.monotonic() - _SAME_READ_SECONDS
        data = os.pread(fh, size, offset)
        self._link.wait(len(data), is_new=is_new)
        self._ends[fh, offset + len(data)] = time.monotonic()
        return data

    def release(self, path: str, fh: int) -> None:
        """Close a file."""
        os.close(fh)


@contextlib.contextmanager
def mounted(source: str, mount: str, latency: float, bandwidth: float) -> Iterator[None]:
    """Serve a folder from another process while the context lasts.

    Raises:
        RuntimeError: It cannot be mounted; says why.
    """
    os.makedirs(mount, exist_ok=True)
    command = [sys.executable, __file__, source, mount]
    command += ["--latency", str(latency), "--bandwidth", str(bandwidth)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not os.path.ismount(mount):
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                raise RuntimeError(server.communicate()[1].strip() or f"{mount} was not mounted")
            time.sleep(0.05)
        yield
    finally:
        server.terminate()  # libfuse unmounts
        server.wait()


def read_counts(mount: str) -> tuple[int, int]:
    """Return the requests that a mounted store has answered, and their bytes."""
    requests, num_bytes = (
        int(os.getxattr(mount, f"user.{name}")) for name in ("requests", "bytes")
    )
    return requests, num_bytes


def serve(source: str, mount: str, link: Link) -> None:
    """Mount a folder and serve it until it is unmounted."""
    try:
        import mfusepy
    except (ImportError, OSError) as error:  # OSError: libfuse is missing
        sys.exit(f"{error}: needs `scripts/setup bench` and libfuse 3 (Debian: libfuse3-3)")
    options: dict[str, Any] = {"max_threads": _THREADS, "max_idle_threads": _THREADS}
    options |= dict.fromkeys(("entry_timeout", "attr_timeout"), _CACHED_SECONDS)
    folder = FarFolder(os.path.abspath(source), link)
    options |= dict.fromkeys(("foreground", "ro", "direct_io"), True)
    try:
        mfusepy.FUSE(folder, mount, fsname=source, **options)
    except RuntimeError as error:
        if error.args != (_ENDED_BY_SIGNAL,):
            sys.exit(f"{mount} cannot be mounted: libfuse ended with {error}")


def main() -> None:
    """Mount a folder until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="the folder")
    parser.add_argument("mount", help="an empty folder, where it is mounted")
    parser.add_argument("--latency", type=float, default=LATENCY, help="seconds of a request")
    parser.add_argument("--bandwidth", type=float, default=BANDWIDTH, help="bytes a second")
    options = parser.parse_args()
    serve(options.source, options.mount, Link(options.latency, options.bandwidth))


if __name__ == "__main__":
    main()
