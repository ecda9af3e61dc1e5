# SPDX-License-Identifier: Apache-2.0
"""A port of a big_vision config that fine-tunes on a small dataset, its loop and its evaluator.

The strings of ops are big_vision's own, but for its `onehot(…, key="label", key_result="labels")`,
which is two ops here. As there, `--config.input.global_batch_size=64` overrides a value, evaluators
see each example once, and there is no mixup unless `mixup.p` is set.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import optax
from absl import flags
from ml_collections import config_dict, config_flags

import tfjax_batches as tjb
from tests.ports.linear_model import Params, init_model, predict

CLASSES = 37


def get_config() -> ml_collections.ConfigDict:
    """Return the default config; `input` holds fields of `BatchConfig`."""
    labels = f'one_hot({CLASSES})|rename("label", "labels")|keep("image", "labels")'
    pp_train = f"decode|inception_crop(128)|flip_lr|value_range(-1, 1)|{labels}"
    pp_eval = f"decode|resize_small(160, 'area')|central_crop(128)|value_range(-1, 1)|{labels}"
    return ml_collections.ConfigDict(
        {
            "input": {
                "dataset": "oxford_iiit_pet",
                "data_dir": config_dict.placeholder(str),
                "split": "train[:90%]",
                "global_batch_size": 512,
                "features": ("image", "label"),
                "preprocess": pp_train,
                "seed": 0,
            },
            "evals": {
                "val": {"split": "train[90%:]", "preprocess": pp_eval},
                "test": {"split": "test", "preprocess": pp_eval},
            },
            "total_steps": 500,
            "lr": 1e-4,
            "mixup": {"p": 0.0},
        }
    )


def parse_config(argv: Sequence[str]) -> ml_collections.ConfigDict:
    """Return the config with the flags of a command line applied."""
    values = flags.FlagValues()
    config_flags.DEFINE_config_dict("config", get_config(), flag_values=values, sys_argv=[*argv])
    values(argv)
    return values.config


def build_train_loader(config: ml_collections.ConfigDict) -> tjb.BatchLoader:
    """Return the training batches, mixed up if the config says so."""
    batches = tjb.BatchConfig(**config.input)
    if config.mixup.p:
        batches.preprocess += f'|mixup({config.mixup.p}, label="labels")'
    return tjb.build(batches)


def build_eval_loader(config: ml_collections.ConfigDict, name: str) -> tjb.BatchLoader:
    """Return the batches of an evaluator, with each example once."""
    once: dict[str, Any] = {"shuffle": "none", "num_epochs": 1, "remainder": "pad"}
    return tjb.build(tjb.BatchConfig(**config.input), **config.evals[name], **once)


@jax.jit
def eval_step(params: Params, batch: Any) -> dict[str, jax.Array]:
    """Return sums over the real rows of a batch."""
    logits, labels, mask = predict(params, batch["image"]), batch["labels"], batch["_mask"]
    correct = logits.argmax(-1) == labels.argmax(-1)
    return {
        "prec@1": jnp.sum(correct, where=mask),
        "loss": jnp.sum(optax.softmax_cross_entropy(logits, labels), where=mask),
        "seen": mask.sum(),
    }


def evaluate(loader: tjb.BatchLoader, params: Params) -> dict[str, float]:
    """Return the number of examples seen, and means over them."""
    with iter(loader) as batches:
        parts = [jax.device_get(eval_step(params, batch)) for batch in batches]
    sums = {name: float(sum(part[name] for part in parts)) for name in parts[0]}
    seen = sums.pop("seen")
    return {"seen": seen, **{name: value / seen for name, value in sums.items()}}


def train(config: ml_collections.ConfigDict) -> tuple[Params, list[float]]:
    """Return the trained weights, and the loss of each step."""
    loader = build_train_loader(config)
    optimizer = optax.adam(optax.cosine_decay_schedule(config.lr, config.total_steps))
    params, state = init_model(loader, CLASSES, optimizer)

    @jax.jit
    def update(params: Params, state: Any, batch: Any) -> tuple[Params, Any, jax.Array]:
        def mean_loss(params: Params) -> jax.Array:
            logits = predict(params, batch["image"])
            return jnp.mean(optax.softmax_cross_entropy(logits, batch["labels"]))

        loss, gradients = jax.value_and_grad(mean_loss)(params)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss

    losses = []
    with iter(loader) as batches:
        for batch in itertools.islice(batches, config.total_steps):
            params, state, loss = update(params, state, batch)
            losses.append(float(loss))
    return params, losses


def main(argv: Sequence[str]) -> tuple[list[float], dict[str, dict[str, float]]]:
    """Train and evaluate as a command line says; return all losses, and what evaluators saw."""
    config = parse_config(argv)
    params, losses = train(config)
    return losses, {
        name: evaluate(build_eval_loader(config, name), params) for name in config.evals
    }
