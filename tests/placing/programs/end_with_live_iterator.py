# SPDX-License-Identifier: Apache-2.0
"""Ends in the way that its argument names, with iterators that nobody has closed."""

import faulthandler
import itertools
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

import jax
import jax.numpy as jnp

from tfjax_batches.placing.prefetcher import Prefetcher

LIVE: list[Prefetcher[int, jax.Array]] = []


def blocked() -> Iterator[int]:
    """Give two numbers and then nothing, ever."""
    yield from range(2)
    threading.Event().wait()


def start(source: Iterator[int], depth: int) -> Prefetcher[int, jax.Array]:
    batches = Prefetcher(source, jnp.asarray, depth=depth)
    LIVE.append(batches)
    next(batches)
    return batches


def leave_on_sigterm(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def main(case: str) -> None:
    faulthandler.dump_traceback_later(60, exit=True)
    # A shell starts its background jobs with SIGINT ignored, and what they start inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start(itertools.count(), depth=2)
    start(itertools.count(), depth=0)
    batches = start(blocked(), depth=2)
    if case == "exit code":
        sys.exit(3)
    if case == "error in the loop":
        raise OSError("of the loop")
    if case == "sigterm handled":
        signal.signal(signal.SIGTERM, leave_on_sigterm)
    if case.startswith("sig"):
        print("ready", flush=True)
        for _ in batches:  # waits for ever
            pass


if __name__ == "__main__":
    main(sys.argv[1])
