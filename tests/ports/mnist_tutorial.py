# SPDX-License-Identifier: Apache-2.0
"""A port of Flax's MNIST tutorial: its two input pipelines, and the loop around them.

There, the pipelines are `repeat().shuffle(1024).batch(32, drop_remainder=True).take(steps)` to
train and `batch(32, drop_remainder=True)` to test, which leaves out the last images. Here the order
is of the whole split, and each test image counts once.
"""

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import optax

import tfjax_batches as tjb
from tests.ports.linear_model import Params, init_model, predict

BATCHES = tjb.BatchConfig(
    dataset="mnist",
    global_batch_size=32,
    preprocess="value_range(0, 1)",  # image / 255, float32
)
OPTIMIZER = optax.adamw(5e-3, b1=0.9)


@dataclasses.dataclass(frozen=True)
class Metrics:
    """Means over examples, each counted once."""

    loss: float
    accuracy: float


def loss_of(params: Params, batch: Any) -> jax.Array:
    """Return the loss of each row, [batch]."""
    logits = predict(params, batch["image"])
    losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    return losses


@jax.jit
def train_step(params: Params, state: Any, batch: Any) -> tuple[Params, Any, jax.Array]:
    """Return params, optimizer state and the loss of one step."""
    loss, gradients = jax.value_and_grad(lambda params: loss_of(params, batch).mean())(params)
    updates, state = OPTIMIZER.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def eval_step(params: Params, batch: Any) -> dict[str, jax.Array]:
    """Return the loss of each row, and whether its label is predicted."""
    predicted = predict(params, batch["image"]).argmax(-1)
    return {"loss": loss_of(params, batch), "accuracy": predicted == batch["label"]}


def evaluate(loader: tjb.BatchLoader, params: Params) -> Metrics:
    """Return the means over all examples of a loader with `remainder="pad"` and ids."""
    with iter(loader) as batches:
        parts = [tjb.gather_examples(batch, eval_step(params, batch))[1] for batch in batches]
    values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Metrics(**{name: float(np.mean(value)) for name, value in values.items()})


def main(
    data_dir: str | None = None, train_steps: int = 1200, eval_every: int = 200
) -> tuple[Params, list[Metrics]]:
    """Train; return the weights and the metrics of the test split, at first and as often as asked.

    Args:
        data_dir: The TFDS folder. None: TFDS's own.
        train_steps: Steps to train.
        eval_every: Steps between tests.
    """
    config = dataclasses.replace(BATCHES, data_dir=data_dir)
    train_loader = tjb.build(config)
    test_loader = tjb.build(
        config, split="test", shuffle="none", num_epochs=1, remainder="pad", with_ids=True
    )
    params, state = init_model(train_loader, 10, OPTIMIZER)
    history = [evaluate(test_loader, params)]
    with iter(train_loader) as batches:
        for batch in itertools.islice(batches, train_steps):
            params, state, loss = train_step(params, state, batch)
            loss.block_until_ready()  # for forced CPU devices, which share few threads
            if batches.step % eval_every == 0 or batches.step == train_steps:
                history.append(evaluate(test_loader, params))
    return params, history
