# SPDX-License-Identifier: Apache-2.0
"""The entries of a batch, known before reading."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.errors import FeatureError
from tfjax_batches.pipeline.host_pipeline import batch_specs
from tfjax_batches.reading.decode import Decoder

CONFIG = BatchConfig(dataset="made", global_batch_size=8, remainder="pad", with_ids=True).checked()


def test_batch_specs_add_mask_and_ids() -> None:
    decoder = Decoder(tfds.features.FeaturesDict({"x": np.float32}), None, "made")
    specs = batch_specs(CONFIG, decoder.specs, (), 10)
    assert {name: spec.dtype.name for name, spec in specs.items()} == {
        "_id": "int32",
        "_mask": "bool",
        "x": "float32",
    }
    assert batch_specs(CONFIG, decoder.specs, (), 2**31)["_id"].dtype == np.int64


@pytest.mark.parametrize("name", ["_id", "_mask", "_host"])
def test_batch_specs_names_that_batches_use_are_refused(name: str) -> None:
    features = tfds.features.FeaturesDict({name: np.int64, "x": np.int64})
    with pytest.raises(
        FeatureError, match=rf"use the names _id, _mask, _host .* has {name}\. Leave"
    ):
        batch_specs(CONFIG, Decoder(features, None, "made").specs, (), 10)
    assert "x" in batch_specs(CONFIG, Decoder(features, ("x",), "made").specs, (), 10)
