# SPDX-License-Identifier: Apache-2.0
"""Placing whose result depends on the host batch alone.

JAX keeps much of its configuration per thread: mesh, default device, transfer guard, 64-bit mode. A
batch must not depend on the thread that places it, nor on the contexts of that thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tfjax_batches.pipeline.host_batches import HostBatch

B = TypeVar("B")

if hasattr(jax, "enable_x64"):
    _enable_x64 = jax.enable_x64
else:  # JAX 0.7
    from jax.experimental import enable_x64 as _enable_x64  # type: ignore[no-redef,attr-defined]


def isolated(place: "Callable[[HostBatch], B]") -> "Callable[[HostBatch], B]":
    """Return `place`, made independent of JAX's 64-bit mode and of later writes to host memory.

    Mesh, default device and transfer guard need no care here: `Assembler` names the devices and
    opens the transfer guard itself.

    Args:
        place: Turns a host batch into a batch, and states every dtype.
    """

    def place_isolated(host_batch: "HostBatch") -> B:
        owned = {path: _owned(values) for path, values in host_batch.items()}
        # The dtypes on the device were decided when the loader was built. JAX must not decide them
        # again by the 64-bit mode of this thread, which a caller's `enable_x64` does not reach.
        with _enable_x64(True):
            return place(owned)

    return place_isolated


def _owned(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return an array that nobody can write to: on CPU devices JAX may keep using its memory."""
    part: object = values
    while isinstance(part, np.ndarray):
        if part.flags.writeable:
            return values.copy()
        part = part.base
    return values
