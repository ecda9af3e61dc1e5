# SPDX-License-Identifier: Apache-2.0
"""ImageNet: random crops, 224×224, to train on, and central crops to evaluate.

Only the crop of each JPEG is decoded. Download the dataset by hand: see the page on imagenet2012 in
the TFDS catalog.
"""

from configs.digits import TrainConfig
from tfjax_batches import BatchConfig

NORMALIZE = "normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), scale=255)"


def get_config() -> TrainConfig:
    return TrainConfig(
        batches=BatchConfig(
            dataset="imagenet2012",
            split="train",
            features=("image", "label"),
            global_batch_size=1024,
            num_epochs=90,
            preprocess=f"decode_random_crop(224)|flip_lr|{NORMALIZE}",
        ),
        eval_split="validation",
        eval_preprocess=f"decode_central_crop(224, resize=256)|{NORMALIZE}",
    )
