# SPDX-License-Identifier: Apache-2.0
"""C4, web pages in English: bytes as tokens, for a language model.

The dataset has to be prepared first, which takes a cluster: see TFDS on c4. A page that is longer
than a row is cut.
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
