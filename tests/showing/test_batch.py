# SPDX-License-Identifier: Apache-2.0
"""Descriptions of batches."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb


def test_describe_lists_each_array_also_donated_ones() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    image = jax.device_put(
        np.zeros((4, 3), jax.numpy.bfloat16), NamedSharding(mesh, PartitionSpec("data"))
    )
    batch = {"nested": {"image": image}, "_host": {"text": np.array([b"a", b"b"], object)}}
    image.delete()
    assert str(tjb.describe(batch)) == (
        "A batch of 4 rows\n"
        "  feature       array           sharding    bytes  local bytes\n"
        "  _host/text    object[2]                  varies       varies\n"
        "  nested/image  bfloat16[4, 3]  P('data')    24 B         24 B"
    )


@pytest.mark.parametrize("batch", [3, np.ones(3), {"image": "a string"}])
def test_describe_of_something_else_says_what_to_pass(batch: Any) -> None:
    with pytest.raises(tjb.ConfigError, match=r"nested dict of arrays; .* Pass a batch"):
        tjb.describe(batch)


def test_describe_counts_the_rows_of_a_feature_named_like_the_host_part() -> None:
    batch = {"_hostname": np.zeros(3), "_host": {"text": np.zeros(2)}}
    assert tjb.describe(batch).title == "A batch of 3 rows"
