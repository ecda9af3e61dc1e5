# SPDX-License-Identifier: Apache-2.0
"""Loaders of a few examples, and the fragments of code in the errors of those that fail."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tfjax_batches.testing import loader_of

FEATURES = tfds.features.FeaturesDict(
    {
        "image": tfds.features.Image(shape=(4, 5, 3)),
        "photo": tfds.features.Image(),
        "mask": tfds.features.Tensor(shape=(4, 5, 3), dtype=np.uint8),
        "label": np.int64,
        "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
        "text": tfds.features.Text(),
        "words": tfds.features.Sequence(tfds.features.Text()),
        "tokens": tfds.features.Sequence(np.int32),
        "objects": {"box": tfds.features.Tensor(shape=(2,), dtype=np.float32), "n": np.int64},
    }
)
EXAMPLES = [
    {
        "image": np.full((4, 5, 3), i, np.uint8),
        "photo": np.full((6 + i, 5, 3), i, np.uint8),
        "mask": np.full((4, 5, 3), i, np.uint8),
        "label": i,
        "vector": np.zeros(3, np.float32),
        "text": "ab" * i,
        "words": ["a"] * i,
        "tokens": [1] * i,
        "objects": {"box": np.zeros(2, np.float32), "n": i},
    }
    for i in range(4)
]


def build(features: tuple[str, ...], **fields: Any) -> Any:
    """Return the first batch of the examples, which have these features only."""
    known = tfds.features.FeaturesDict({name: FEATURES[name] for name in features})
    examples = [{name: each[name] for name in features} for each in EXAMPLES]
    return next(loader_of(examples, known, **fields).host_batches())


def message_of(build: Callable[[], Any]) -> str:
    with pytest.raises(tjb.BatchesError) as caught:
        build()
    return str(caught.value)


def fragment(pattern: str, message: str) -> str:
    found = re.search(pattern, message)
    assert found, f"{pattern} is not in: {message}"
    return found[1]
