# SPDX-License-Identifier: Apache-2.0
"""A two-layer classifier of images, its hidden layer split over a mesh axis `model`.

The loss is written twice: on global arrays, which `jit` splits over devices, and for one device,
which runs under `shard_map`. Both have the same gradients.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MODEL_AXIS = "model"

Params = dict[str, jax.Array]
# (params, images, labels) → mean loss over the rows
LossFunction = Callable[[Params, jax.Array, jax.Array], jax.Array]


def param_specs(mesh: Mesh) -> dict[str, PartitionSpec]:
    """Return the PartitionSpec of each weight; an axis `model` splits the hidden layer."""
    model = MODEL_AXIS if MODEL_AXIS in mesh.axis_names else None
    return {
        "hidden": PartitionSpec(None, model),
        "hidden_bias": PartitionSpec(model),
        "output": PartitionSpec(model, None),
        "output_bias": PartitionSpec(),
    }


def init_params(mesh: Mesh, inputs: int, hidden: int, outputs: int, seed: int) -> Params:
    """Return random weights of the network, placed by `param_specs`.

    Args:
        mesh: The devices.
        inputs: Values per image.
        hidden: Hidden units.
        outputs: Classes.
        seed: Seed of the weights.
    """
    shapes = {
        "hidden": (inputs, hidden),
        "hidden_bias": (hidden,),
        "output": (hidden, outputs),
        "output_bias": (outputs,),
    }
    shardings = {name: NamedSharding(mesh, spec) for name, spec in param_specs(mesh).items()}

    @functools.partial(jax.jit, out_shardings=shardings)
    def init(key: jax.Array) -> Params:
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(key, shape) * math.sqrt(2 / shape[0])
            if len(shape) == 2
            else jnp.zeros(shape)
            for key, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    return init(jax.random.key(seed))


def hidden_units(params: Params, images: jax.Array) -> jax.Array:
    """Return the hidden layer, [batch, hidden], for images [batch, height, width, channels].

    Integer images are scaled from 0..255 to -1..1; float images are not scaled.
    """
    inputs = images.reshape(images.shape[0], -1).astype(jnp.float32)
    if jnp.issubdtype(images.dtype, jnp.integer):
        inputs = inputs / 127.5 - 1
    return jax.nn.relu(inputs @ params["hidden"] + params["hidden_bias"])


def predict(params: Params, images: jax.Array) -> jax.Array:
    """Return logits [batch, classes] for global arrays; the compiler splits the work."""
    return hidden_units(params, images) @ params["output"] + params["output_bias"]


def mean_loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def make_jit_loss(mesh: Mesh, data_axes: Sequence[str]) -> LossFunction:
    """Return the loss as a function of global arrays, which the compiler splits."""
    del mesh, data_axes  # the shardings of the arrays say how to split
    return lambda params, images, labels: mean_loss(predict(params, images), labels)


def make_shard_map_loss(mesh: Mesh, data_axes: Sequence[str]) -> LossFunction:
    """Return the same loss as a function of one device's arrays, with explicit collectives."""

    def local_loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
        logits = hidden_units(params, images) @ params["output"]  # of this device's hidden units
        if MODEL_AXIS in mesh.axis_names:
            logits = jax.lax.psum(logits, MODEL_AXIS)
        # Every device holds the same number of rows, so the mean of the means is the mean.
        return jax.lax.pmean(mean_loss(logits + params["output_bias"], labels), tuple(data_axes))

    rows = PartitionSpec(tuple(data_axes))
    return jax.shard_map(
        local_loss,
        mesh=mesh,
        in_specs=(param_specs(mesh), rows, rows),
        out_specs=PartitionSpec(),
    )


LOSS_MAKERS = {"jit": make_jit_loss, "shard_map": make_shard_map_loss}
