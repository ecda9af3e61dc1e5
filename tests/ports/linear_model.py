# SPDX-License-Identifier: Apache-2.0
"""A linear classifier of images, in place of the networks of the ports: these show the input."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

import tfjax_batches as tjb

Params = dict[str, jax.Array]


def init_model(
    loader: tjb.BatchLoader, classes: int, optimizer: optax.GradientTransformation
) -> tuple[Params, Any]:
    """Return weights for the images of a loader, and optimizer state, both on all its devices."""
    images = loader.element_spec["image"]
    weight = jnp.zeros((math.prod(images.shape[1:]), classes))
    params = {"weight": weight, "bias": jnp.zeros(classes)}
    replicated = NamedSharding(images.sharding.mesh, PartitionSpec())
    model: tuple[Params, Any] = jax.device_put((params, optimizer.init(params)), replicated)
    return model


def predict(params: Params, images: jax.Array) -> jax.Array:
    """Return logits, float32[batch, classes]."""
    pixels = images.reshape(images.shape[0], -1).astype(jnp.float32)
    return pixels @ params["weight"] + params["bias"]
