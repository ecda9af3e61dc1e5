# SPDX-License-Identifier: Apache-2.0
"""MNIST: handwritten digits, 28×28."""

from configs.digits import TrainConfig
from tfjax_batches import BatchConfig


def get_config() -> TrainConfig:
    return TrainConfig(
        batches=BatchConfig(
            dataset="mnist",
            split="train",
            prepare=True,
            global_batch_size=256,
            num_epochs=10,
            preprocess="value_range(-1, 1)",
        )
    )
