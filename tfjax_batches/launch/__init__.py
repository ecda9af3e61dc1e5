# SPDX-License-Identifier: Apache-2.0
"""Several JAX processes on this machine, on CPU, for demos and tests.

From a shell::

    python -m tfjax_batches.launch --processes 4 -- python scripts/train.py

and from Python with `launch`. The program that is started calls `initialize` before JAX is used.
A side room: it knows nothing of batches.
"""

from tfjax_batches.launch.distributed import initialize
from tfjax_batches.launch.launcher import LaunchResult, launch, main

__all__ = ["LaunchResult", "initialize", "launch", "main"]
