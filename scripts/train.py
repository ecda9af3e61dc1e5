# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier of images on one process or many, and evaluates it exactly.

python scripts/train.py --config=configs/digits.py --config.batches.global_batch_size=128
python -m tfjax_batches.launch --processes 4 -- \
        python scripts/train.py --config=configs/digits.py --config.mesh=data=2,model=2
"""

import dataclasses
import functools
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tqdm
from absl import app
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ml_collections import config_flags

import tfjax_batches as tjb
from tfjax_batches import launch
from tfjax_batches.planning.mesh import parse_mesh_shape

_CONFIG = config_flags.DEFINE_config_file("config", "configs/digits.py", lock_config=False)

MODEL_AXIS = "model"

Params = dict[str, jax.Array]
# (params, images, labels) → mean loss over the rows
LossFunction = Callable[[Params, jax.Array, jax.Array], jax.Array]


def make_mesh(text: str) -> Mesh:
    """Return the mesh of all devices that a text such as `data=-1,model=2` describes."""
    shape = parse_mesh_shape(text, len(jax.devices()))
    return Mesh(np.array(jax.devices()).reshape(tuple(shape.values())), tuple(shape))


def param_specs(mesh: Mesh) -> dict[str, PartitionSpec]:
    """Return the spec of each weight: the hidden layer is split over `model`, if there is one."""
    model = MODEL_AXIS if MODEL_AXIS in mesh.axis_names else None
    return {
        "hidden": PartitionSpec(None, model),
        "hidden_bias": PartitionSpec(model),
        "output": PartitionSpec(model, None),
        "output_bias": PartitionSpec(),
    }


def init_params(mesh: Mesh, inputs: int, hidden: int, outputs: int, seed: int) -> Params:
    """Return the weights of a two-layer network, placed by `param_specs`."""
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
    """Return [batch, hidden] of images [batch, height, width, channels], uint8."""
    inputs = images.reshape(images.shape[0], -1).astype(jnp.float32) / 127.5 - 1
    return jax.nn.relu(inputs @ params["hidden"] + params["hidden_bias"])


def predict(params: Params, images: jax.Array) -> jax.Array:
    """Return logits [batch, classes] of global arrays; the compiler splits the work."""
    return hidden_units(params, images) @ params["output"] + params["output_bias"]


def mean_loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def make_jit_loss(mesh: Mesh, data_axes: Sequence[str]) -> LossFunction:
    """Return the loss as a program on global arrays, which the compiler splits."""
    del mesh, data_axes  # the arrays know how they are split
    return lambda params, images, labels: mean_loss(predict(params, images), labels)


def make_shard_map_loss(mesh: Mesh, data_axes: Sequence[str]) -> LossFunction:
    """Return the same loss as a program of one device, which names its collectives."""

    def local_loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
        logits = hidden_units(params, images) @ params["output"]  # of this device's hidden units
        if MODEL_AXIS in mesh.axis_names:
            logits = jax.lax.psum(logits, MODEL_AXIS)
        # Every device holds equally many rows, so the mean of means is the mean.
        return jax.lax.pmean(mean_loss(logits + params["output_bias"], labels), tuple(data_axes))

    rows = PartitionSpec(tuple(data_axes))
    return jax.shard_map(
        local_loss,
        mesh=mesh,
        in_specs=(param_specs(mesh), rows, rows),
        out_specs=PartitionSpec(),
    )


LOSS_MAKERS = {"jit": make_jit_loss, "shard_map": make_shard_map_loss}


def make_train_step(
    loss_of: LossFunction, optimizer: optax.GradientTransformation, replicated: NamedSharding
) -> Any:
    """Return the jitted step: (params, state, batch) → (params, state, loss, ids)."""

    @functools.partial(
        jax.jit, donate_argnums=(0, 1), out_shardings=(None, None, replicated, replicated)
    )
    def train_step(params: Params, state: Any, batch: Any) -> tuple[Params, Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, batch["image"], batch["label"])
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss, batch["_id"]

    return train_step


def make_eval_step(replicated: NamedSharding) -> Any:
    """Return the jitted step: (params, batch) → (number correct among the real rows, ids)."""

    @functools.partial(jax.jit, out_shardings=replicated)
    def eval_step(params: Params, batch: Any) -> tuple[jax.Array, jax.Array]:
        correct = predict(params, batch["image"]).argmax(-1) == batch["label"]
        return (correct & batch["_mask"]).sum(), batch["_id"]

    return eval_step


def train(config: Any, loader: tjb.BatchLoader, params: Params) -> Params:
    """Train, and print the digest of the ids delivered, the last loss and the speed."""
    mesh = params["hidden"].sharding.mesh
    optimizer = optax.adam(config.learning_rate)
    loss_of = LOSS_MAKERS[config.parallel](mesh, config.data_axes)
    train_step = make_train_step(loss_of, optimizer, NamedSharding(mesh, PartitionSpec()))
    state = jax.jit(optimizer.init)(params)
    num_steps = config.num_steps or len(loader)
    all_ids = []
    with (
        iter(loader) as batches,
        tqdm.tqdm(total=num_steps, unit="step", disable=jax.process_index() != 0) as progress,
    ):
        for step, batch in zip(range(num_steps), batches):  # noqa: B905 - the loader may go on
            params, state, loss, ids = train_step(params, state, batch)
            all_ids.append(ids)
            if step == 0 or jax.default_backend() == "cpu":
                # Forced CPU devices share few threads: steps in flight that wait for each other's
                # collectives can use them up, and then wait for ever.
                loss.block_until_ready()
            if step == 0:
                # The first step compiles; the speed is that of the others.
                start, waited = time.perf_counter(), batches.stats.wait_seconds
            progress.update()
        final_loss = float(loss)
        seconds = time.perf_counter() - start
        wait_share = (batches.stats.wait_seconds - waited) / seconds
    digest = hashlib.sha256(np.concatenate([np.asarray(ids) for ids in all_ids]).tobytes())
    report("train_steps", num_steps)
    report("train_ids_digest", digest.hexdigest()[:16])
    report("final_loss", f"{final_loss:.6f}")
    report(
        "examples_per_second", f"{(num_steps - 1) * config.batches.global_batch_size / seconds:.0f}"
    )
    report("input_wait_share", f"{wait_share:.3f}")
    return params


def evaluate(config: Any, params: Params) -> None:
    """Evaluate each example of the split once, and print the accuracy."""
    mesh = params["hidden"].sharding.mesh
    batches_config = dataclasses.replace(
        config.batches,
        split=config.eval_split,
        shuffle=tjb.Shuffle.NONE,
        num_epochs=1,
        remainder=tjb.Remainder.PAD,
    )
    loader = tjb.build(batches_config, tjb.data_sharding(mesh, config.data_axes))
    eval_step = make_eval_step(NamedSharding(mesh, PartitionSpec()))
    correct, seen = 0, []
    with iter(loader) as batches:
        for batch in batches:
            step_correct, ids = eval_step(params, batch)
            correct += int(step_correct)
            seen.append(np.asarray(ids))
    ids = np.concatenate(seen)
    times_seen = np.bincount(ids[ids >= 0], minlength=loader.num_examples)
    report("test_examples", loader.num_examples)
    report("test_examples_evaluated_once", int((times_seen == 1).sum()))
    report("test_accuracy", f"{correct / loader.num_examples:.4f}")


def report(name: str, value: Any) -> None:
    """Print a line of the run's summary, once for all processes."""
    if jax.process_index() == 0:
        print(f"{name}: {value}", flush=True)


def main(argv: Sequence[str]) -> None:
    """Train and evaluate."""
    if len(argv) > 1:
        raise app.UsageError(f"All arguments are flags; got {argv[1:]}. Write --name=value.")
    launch.initialize()
    config = _CONFIG.value
    if config.parallel not in LOSS_MAKERS:
        raise app.UsageError(
            f"--config.parallel is one of {sorted(LOSS_MAKERS)}; got {config.parallel!r}."
        )
    mesh = make_mesh(config.mesh)
    loader = tjb.build(config.batches, tjb.data_sharding(mesh, config.data_axes))
    image = loader.element_spec["image"]
    inputs = math.prod(image.shape[1:])
    params = init_params(mesh, inputs, config.hidden_units, 10, config.seed)
    params = train(config, loader, params)
    evaluate(config, params)


if __name__ == "__main__":
    app.run(main)
