# SPDX-License-Identifier: Apache-2.0
"""Random transforms give the same on any processes, and processes agree on them at `build`."""

import hashlib
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import multihost_utils
from jax.sharding import Mesh

import tfjax_batches as tjb

ROWS = 8


def jitter(example: dict[str, Any], seed: tf.Tensor) -> dict[str, Any]:
    return {**example, "vector": example["vector"] + tf.random.stateless_uniform([3], seed)}


def digest_batches(folder: str) -> str:
    """Return a digest of all batches of two epochs."""
    loader = tjb.build(
        folder,
        tjb.data_sharding(Mesh(np.array(jax.devices())[[2, 0, 3, 1]], ("data",))),
        global_batch_size=ROWS,
        num_epochs=2,
        remainder="pad",
        preprocess="decode_random_crop(3, key='nested/image')|value_range(0, 1, key='nested/image')"
        "|one_hot(3)|mixup(0.4, key='nested/image')",
        transforms=[tjb.MapExamples(jitter, random=True)],
    )
    digest = hashlib.sha256()
    with iter(loader) as batches:
        for batch in batches:
            for leaf in jax.tree.leaves(multihost_utils.process_allgather(batch, tiled=True)):
                digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def check_other_transform_is_named(folder: str) -> None:
    """A constant that differs is enough; so is a transform that only one process has."""
    here = jax.process_index()
    shift = tjb.MapBatches(lambda b: {**b, "vector": b["vector"] + float(here == 0)}, name="shift")
    with pytest.raises(tjb.AgreementError, match=r"graphs of transforms: process 0 has "):
        tjb.build(folder, global_batch_size=ROWS, transforms=[shift])
    with pytest.raises(tjb.AgreementError, match=r"transforms: process 0 has \[\"1\. shift\"\]"):
        tjb.build(folder, global_batch_size=ROWS, transforms=[shift] if here == 0 else [])


def main(folder: str) -> None:
    """Print the digest of the batches of `Numbers`, which must be the same on all processes."""
    print(f"transformed: {digest_batches(folder)}", flush=True)
    if jax.process_count() > 1:
        check_other_transform_is_named(folder)
