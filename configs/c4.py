# SPDX-License-Identifier: Apache-2.0
"""C4, English web pages as byte tokens, for a language model.

Prepare the dataset first, which needs a cluster: see the page on c4 in the TFDS catalog. Pages
longer than a row are truncated.
"""

from configs.digits import TrainConfig
from tfjax_batches import BatchConfig


def get_config() -> TrainConfig:
    return TrainConfig(
        batches=BatchConfig(
            dataset="c4/en",
            split="train",
            features=("text",),
            global_batch_size=256,
            num_epochs=1,
            preprocess="byte_tokens|pad(1024)|tokens_shift",
        ),
        eval_split="validation",
    )
