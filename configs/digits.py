# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, 8×8: trains in seconds on a CPU. See scripts/train.py."""

import dataclasses

from tfjax_batches import BatchConfig


@dataclasses.dataclass(kw_only=True)
class TrainConfig:
    """What scripts/train.py needs to know.

    Attributes:
        batches: The training batches.
        eval_split: Evaluated whole, each example once.
        eval_preprocess: Ops for that split. None: those of `batches`.
        mesh: Mesh axes and sizes in order; one size may be -1: all devices that are left.
        data_axes: Mesh axes that split the batch. Weights are split over `model`, where there
            is such an axis.
        parallel: How a step is split over devices: `jit`, by the compiler, or `shard_map`, with
            collectives by name. Both compute the same.
        num_steps: Training steps. 0: as many as `batches` holds.
        checkpoint_every: Steps between checkpoints, where there is a --workdir.
        hidden_units: Width of the network's hidden layer.
        learning_rate: Of Adam.
        seed: Of the weights.
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
    """Return the default config; override as in `--config.batches.global_batch_size=64`."""
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
