# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training run: the model with Orbax, and beside it the state of the batches."""

import signal
from types import FrameType
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

# A collective each step would cost more than a small step.
_STEPS_BETWEEN_AGREEMENTS = 5


class Checkpoints:
    """The checkpoints in a folder. All processes must call each method at the same steps.

    Args:
        folder: Absolute path that all processes can access. None: no checkpoints.
        every: Steps between checkpoints.
    """

    def __init__(self, folder: str | None, every: int) -> None:
        self._manager = None
        if folder is not None:
            options = ocp.CheckpointManagerOptions(
                max_to_keep=2, save_interval_steps=every, enable_async_checkpointing=False
            )
            self._manager = ocp.CheckpointManager(folder, options=options)

    def save(self, step: int, model: Any, progress: dict[str, Any], *, now: bool = False) -> None:
        """Save if `step` is a multiple of `every`, or if `now`.

        Args:
            step: Batches consumed.
            model: Pytree of global arrays.
            progress: JSON that includes `batches.get_state()`.
            now: Save at any step.
        """
        if self._manager is None or step in self._manager.all_steps():
            return
        items = ocp.args.Composite(
            model=ocp.args.StandardSave(model), progress=ocp.args.JsonSave(progress)
        )
        self._manager.save(step, args=items, force=now)

    def restore(self, model: Any) -> tuple[Any, dict[str, Any]] | None:
        """Return model and progress of the latest checkpoint, or None.

        Args:
            model: Pytree of arrays with the shardings that the restored arrays will have.
        """
        if self._manager is None or (step := self._manager.latest_step()) is None:
            return None
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, model)
        items = ocp.args.Composite(
            model=ocp.args.StandardRestore(target), progress=ocp.args.JsonRestore()
        )
        restored = self._manager.restore(step, args=items)
        return restored.model, restored.progress

    def close(self) -> None:
        """Wait until pending checkpoints are written."""
        if self._manager is not None:
            self._manager.close()


class StopRequest:
    """Records SIGTERM, so that all processes stop at the same step."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._note)

    def agreed(self, step: int) -> bool:
        """Return whether any process got SIGTERM; all processes call it at the same steps."""
        if jax.process_count() == 1:
            return self._asked
        if step % _STEPS_BETWEEN_AGREEMENTS:
            return False
        return bool(multihost_utils.process_allgather(np.array(self._asked)).any())

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._asked = True
