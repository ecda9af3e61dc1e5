# SPDX-License-Identifier: Apache-2.0
"""Prints which rows of some global arrays each process can draw, and draws them."""

import jax
import matplotlib
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tfjax_batches.showing.local_rows import read_local_rows

matplotlib.use("Agg")


def main() -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("host", "device"))
    values = np.arange(4 * 4 * 4).reshape(4, 4, 4).astype(np.uint8)
    for name, spec in {
        "by_host": PartitionSpec("host"),
        "by_device": PartitionSpec("device"),
        "whole": PartitionSpec(),
        "cut_within": PartitionSpec("host", "device"),
        "cut_between": PartitionSpec(None, "host"),
    }.items():
        sharding = NamedSharding(mesh, spec)
        array = jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])
        rows, found = read_local_rows(array)
        np.testing.assert_array_equal(found, values[rows])
        print(f"{name}: {rows.tolist()}")
        if len(rows):
            drawn = tjb.show({"image": array}).axes
            levels = drawn[0].images[0].get_array()
            assert levels is not None
            np.testing.assert_allclose(levels, values[rows[0]] / 255, atol=1e-6)
