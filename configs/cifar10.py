# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10: 32×32 photographs, randomly shifted by up to 4 pixels and flipped."""

from configs.digits import TrainConfig
from tfjax_batches import BatchConfig

NORMALIZE = "normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), scale=255)"


def get_config() -> TrainConfig:
    return TrainConfig(
        batches=BatchConfig(
            dataset="cifar10",
            split="train",
            prepare=True,
            features=("image", "label"),
            global_batch_size=512,
            num_epochs=100,
            preprocess=f"random_crop(32, padding=4)|flip_lr|{NORMALIZE}",
        ),
        eval_preprocess=NORMALIZE,
    )
