# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, 8×8; trains in seconds on a CPU. Also defines `TrainConfig`."""

import dataclasses

from tfjax_batches import BatchConfig


@dataclasses.dataclass(kw_only=True)
class TrainConfig:
    """The settings of scripts/train.py.

    Attributes:
        batches: The training batches.
        eval_split: The split to evaluate; each example counts once.
        eval_preprocess: The ops for that split. None: those of `batches`.
        mesh: Mesh axes and their sizes, in order. One size may be -1: all remaining devices.
        data_axes: The mesh axes that split the batch. Weights are split over the axis `model`, if
            the mesh has one.
        parallel: How a step is split over devices: `jit` (by the compiler) or `shard_map` (with
            explicit collectives). Both compute the same.
        num_steps: Training steps. 0: all steps of `batches`.
        checkpoint_every: Steps between checkpoints, if there is a --workdir.
        hidden_units: Width of the hidden layer.
        learning_rate: Learning rate of Adam.
        seed: Seed of the initial weights.
    """

    batches: BatchConfig
    eval_split: str = "test"
    eval_preprocess: str | None = None
    mesh: str = "data=-1,model=1"
    data_axes: tuple[str, ...] = ("data",)
    parallel: str = "jit"
    num_steps: int = 0
    checkpoint_every: int = 100
    hidden_units: int = 256
    learning_rate: float = 2e-3
    seed: int = 0


def get_config() -> TrainConfig:
    """Return the default config; flags such as `--config.batches.seed=1` override it."""
    return TrainConfig(
        batches=BatchConfig(
            dataset="digits",
            split="train",
            prepare=True,
            global_batch_size=64,
            num_epochs=40,
            with_ids=True,
        )
    )
