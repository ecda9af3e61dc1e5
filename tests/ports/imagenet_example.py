# SPDX-License-Identifier: Apache-2.0
"""A port of Flax's ImageNet example: its two splits, schedule, mixed precision and checkpoints.

There, each process takes an even part of the split, drops what does not fill a batch, and shuffles
in a buffer; a restored run starts its input again. Here nothing depends on the process, the
validation counts each image once, and a run goes on within the epoch. `cache=True` kept the stored
images in memory: here files are mapped into memory, where the system keeps what fits.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from checkpoints import Checkpoints  # of scripts/

import tfjax_batches as tjb
from tests.ports.linear_model import Params, init_model, predict

CROP_PADDING = 32
CLASSES = 1000
NORMALIZE = "normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), scale=255)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a run; the defaults are those of the example."""

    data_dir: str | None = None
    image_size: int = 224
    batch_size: int = 128
    num_epochs: int = 100
    warmup_epochs: int = 5
    learning_rate: float = 0.1  # for 256 images a step
    momentum: float = 0.9
    half_precision: bool = False
    seed: int = 0
    checkpoint_every: int = 1000


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run leaves: the steps it made, its loss at each of them, accuracy, weights."""

    steps: range
    losses: list[float]
    accuracies: list[float]  # one for each epoch that ended
    params: Params


def create_split(config: Config, train: bool) -> tjb.BatchLoader:
    """Return the loader of one of the two splits; its images are [batch, size, size, 3]."""
    size = config.image_size
    dtype = "bfloat16" if config.half_precision else "float32"
    # There, a window covers at least 0.1 of a box that is the whole image.
    random_crop = f"decode_random_crop({size}, area=(0.1, 1.0), method='bicubic')|flip_lr"
    central_crop = f"decode_central_crop({size}, {size + CROP_PADDING}, method='bicubic')"
    return tjb.build(
        "imagenet2012",
        data_dir=config.data_dir,
        split="train" if train else "validation",
        features=("image", "label"),
        global_batch_size=config.batch_size,
        preprocess=f"{random_crop if train else central_crop}|{NORMALIZE}|cast('{dtype}')",
        shuffle="global" if train else "none",
        seed=config.seed,
        num_epochs=config.num_epochs if train else 1,
        remainder="carry" if train else "pad",
        threadpool_size=48,
    )


def make_optimizer(config: Config, steps_per_epoch: int) -> optax.GradientTransformation:
    """Return SGD with a linear warmup and a cosine decay, by step."""
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=config.learning_rate * config.batch_size / 256,
        warmup_steps=config.warmup_epochs * steps_per_epoch,
        decay_steps=config.num_epochs * steps_per_epoch,
    )
    return optax.sgd(schedule, config.momentum, nesterov=True)


@functools.partial(jax.jit, static_argnums=0)
def train_step(
    optimizer: optax.GradientTransformation, params: Params, state: Any, batch: Any
) -> tuple[Params, Any, jax.Array]:
    """Return params, optimizer state and the loss of one step."""

    def mean_loss(params: Params) -> jax.Array:
        logits = predict(params, batch["image"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
        return jnp.mean(losses)

    loss, gradients = jax.value_and_grad(mean_loss)(params)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def count_correct(params: Params, batch: Any) -> jax.Array:
    """Return how many of the real rows are predicted."""
    correct = predict(params, batch["image"]).argmax(-1) == batch["label"]
    return jnp.sum(correct, where=batch["_mask"])


def evaluate(loader: tjb.BatchLoader, params: Params) -> float:
    """Return the accuracy over all examples of a loader with `remainder="pad"`."""
    with iter(loader) as batches:
        return sum(int(count_correct(params, batch)) for batch in batches) / loader.num_examples


def train_and_evaluate(config: Config, workdir: str, stop_at: int | None = None) -> Result:
    """Train from the latest checkpoint in a folder, and evaluate after each epoch.

    Args:
        config: The settings.
        workdir: Absolute path of the checkpoints.
        stop_at: The step before which the run ends early. None: the whole run.
    """
    train_loader, eval_loader = create_split(config, train=True), create_split(config, train=False)
    optimizer = make_optimizer(config, train_loader.steps_per_epoch)
    params, state = init_model(train_loader, CLASSES, optimizer)
    checkpoints = Checkpoints(workdir, config.checkpoint_every)
    batches = iter(train_loader)
    if restored := checkpoints.restore((params, state)):
        (params, state), progress = restored
        batches.set_state(progress)
    first, losses, accuracies = batches.step, [], []
    with batches:
        for batch in batches:
            params, state, loss = train_step(optimizer, params, state, batch)
            losses.append(float(loss))
            if batches.step % train_loader.steps_per_epoch == 0:
                accuracies.append(evaluate(eval_loader, params))
            checkpoints.save(batches.step, (params, state), batches.get_state())
            if batches.step == stop_at:
                break
    checkpoints.close()
    return Result(range(first, batches.step), losses, accuracies, params)
