# SPDX-License-Identifier: Apache-2.0
"""Two sources in stages: first the digits as they are, and from step 100 on shifted ones too.

Both are read from the dataset that comes with this library, so nothing is downloaded. Each has its
own order, epochs and ops. Built by `tjb.build(get_config().batches)`.
"""

import dataclasses

from tfjax_batches import MixtureConfig, Source

DIGITS = Source(dataset="digits", split="train", prepare=True)


@dataclasses.dataclass(kw_only=True)
class RunConfig:
    """The settings of a run.

    Attributes:
        batches: The training batches.
        mesh: Mesh axes and their sizes, in order. One size may be -1: all remaining devices.
        data_axes: The mesh axes that split the batch.
    """

    batches: MixtureConfig
    mesh: str = "data=-1"
    data_axes: tuple[str, ...] = ("data",)


def get_config() -> RunConfig:
    """Return the default config.

    A flag may override each field: `--config.batches.weights="{'plain': 0.7, 'changed': 0.3}"`.
    """
    return RunConfig(
        batches=MixtureConfig(
            sources={
                "plain": dataclasses.replace(DIGITS, preprocess="value_range(0, 1)", max_epochs=20),
                "changed": dataclasses.replace(
                    DIGITS, preprocess="random_crop(8, padding=1)|value_range(0, 1)"
                ),
            },
            weights=[(0, {"plain": 1}), (100, {"plain": 0.7, "changed": 0.3})],
            global_batch_size=64,
            with_ids=True,
            with_sources=True,
        )
    )
