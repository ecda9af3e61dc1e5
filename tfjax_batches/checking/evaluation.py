# SPDX-License-Identifier: Apache-2.0
"""Results of padded, sharded batches, with each example counted once."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.experimental import multihost_utils

from tfjax_batches.errors import ConfigError

Ids = npt.NDArray[np.int64]


def masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Return the mean over the rows that are real; for use inside `jit`.

    Padding may hold anything, NaN too. To average over several batches exactly, add up
    `jnp.sum(values, where=mask)` and `mask.sum()` instead: the last batch has fewer real rows.

    Args:
        values: [batch, ...], one value or more for each row.
        mask: bool[batch], `batch["_mask"]`.

    Returns:
        [...], floating; NaN where no row is real.
    """
    rows = jnp.reshape(mask, mask.shape + (1,) * (values.ndim - 1))
    # Not a sum over a count: `mean` adds up small floats and integers in a wider dtype.
    return jnp.mean(values, axis=0, where=rows)


def gather_examples(batch: Mapping[str, Any], tree: Any) -> tuple[Ids, Any]:
    """Return the results of all rows of a batch in order of example, on every process.

    Padding is left out, and an example that stands in the batch twice (the end of an epoch under
    CARRY) counts once, by its first row. With more than one process every process calls it, from
    the thread of the other collectives. The result is the same for any number of them.

    Args:
        batch: A batch of a loader with `with_ids=True`.
        tree: Pytree of global `jax.Array` [batch, ...], such as predictions.

    Returns:
        int64[n], the example indices in rising order, and the tree as NumPy arrays [n, ...].

    Raises:
        ConfigError: The batch has no `_id`, or a leaf is no global array with its rows.
    """
    if "_id" not in batch:
        raise ConfigError(
            "gather_examples tells rows apart by their example; the batch has no '_id'. "
            "Build the loader with with_ids=True."
        )
    for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
        _check_rows(jax.tree_util.keystr(keys, simple=True, separator="/"), leaf, batch["_id"])
    ids, mask, values = multihost_utils.process_allgather(
        (batch["_id"], batch.get("_mask"), tree), tiled=True
    )
    # Padding has the id -1; the mask is there under PAD alone, and says the same.
    real = np.flatnonzero(ids >= 0 if mask is None else mask)
    unique_ids, first = np.unique(ids[real].astype(np.int64), return_index=True)
    return unique_ids, jax.tree.map(lambda x: x[real[first]], values)


def _check_rows(path: str, leaf: Any, ids: jax.Array) -> None:
    shape = getattr(leaf, "shape", None)
    if (
        isinstance(leaf, jax.Array)
        and leaf.shape[:1] == ids.shape
        # A local array of several processes would be gathered as a part of the whole.
        and leaf.is_fully_addressable == ids.is_fully_addressable
    ):
        return
    raise ConfigError(
        f"gather_examples takes global arrays with a row for each of the {ids.shape[0]} of the "
        f"batch; {path or 'the tree'} is a {type(leaf).__name__} of shape {shape}. "
        "Pass what a jitted function of the batch returned, per row."
    )
