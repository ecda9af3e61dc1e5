# SPDX-License-Identifier: Apache-2.0
"""Several JAX processes on this machine, on CPU, for demos and tests.

`python -m tfjax_batches.launch --processes 4 -- python train.py`, or `launch` from Python, starts a
program; the program calls `initialize` before it uses JAX. A side room: it knows nothing of
batches. Needs Linux, or macOS with Python 3.13.
"""

from tfjax_batches.launch.distributed import initialize
from tfjax_batches.launch.launcher import LaunchResult, launch, main

__all__ = ["LaunchResult", "initialize", "launch", "main"]
