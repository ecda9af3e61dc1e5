# SPDX-License-Identifier: Apache-2.0
"""Leaving the accelerators to JAX."""

import tensorflow as tf
from absl import logging


def hide_accelerators_from_tensorflow() -> None:
    """Hide GPUs and TPUs from TensorFlow, which would take most of their memory."""
    for kind in ("GPU", "TPU"):
        if not tf.config.list_physical_devices(kind):
            continue
        try:
            tf.config.set_visible_devices([], kind)
        except RuntimeError:
            logging.warning(
                "TensorFlow started before tfjax_batches.build and holds %ss; JAX may find their "
                "memory taken. Call build before any TensorFlow op, or hide them with "
                "tf.config.set_visible_devices([], %r).",
                kind,
                kind,
            )
