# SPDX-License-Identifier: Apache-2.0
"""Placing that depends on the host batch alone.

JAX keeps much of its configuration by thread: mesh, default device, transfer guard, 64-bit mode.
A batch is the same whichever thread places it, whatever contexts that thread is in.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import numpy as np
import numpy.typing as npt

B = TypeVar("B")

HostArrays = Mapping[str, npt.NDArray[np.generic]]

if hasattr(jax, "enable_x64"):
    _enable_x64 = jax.enable_x64
else:  # JAX 0.7
    from jax.experimental import enable_x64 as _enable_x64  # type: ignore[no-redef,attr-defined]


def isolated(place: Callable[[HostArrays], B]) -> Callable[[HostArrays], B]:
    """Return `place`, made independent of JAX's 64-bit mode and of later writes to host memory.

    Of the other contexts mesh and default device are nothing to `Assembler`, which names the
    devices, and it opens the transfer guard itself.

    Args:
        place: Makes a batch of host arrays by path, and leaves no dtype to JAX.
    """

    def place_isolated(host_batch: HostArrays) -> B:
        owned = {path: _owned(values) for path, values in host_batch.items()}
        # The dtypes on the device were decided when the loader was built. JAX must not decide
        # again, in a thread that knows nothing of an `enable_x64` around the caller.
        with _enable_x64(True):
            return place(owned)

    return place_isolated


def _owned(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return an array that nobody can write to: on CPU devices JAX goes on using its memory."""
    part: object = values
    while isinstance(part, np.ndarray):
        if part.flags.writeable:
            return values.copy()
        part = part.base
    return values
