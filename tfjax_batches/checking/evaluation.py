# SPDX-License-Identifier: Apache-2.0
"""Results of padded and sharded batches, in which each example counts once."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from tfjax_batches.errors import ConfigError
from tfjax_batches.features.paths import ID, MASK, SOURCE
from tfjax_batches.planning.order import Int64Array


def masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Return the mean over the rows that are not padding; usable inside `jit`.

    Padding may hold any value, even NaN. For an exact average over several batches, add up
    `jnp.sum(values, where=mask)` and `mask.sum()` instead: the last batch has fewer real rows.

    Args:
        values: [batch, ...], one value or more for each row.
        mask: bool[batch], `batch["_mask"]`: True for rows that are not padding.

    Returns:
        [...], floating; NaN if all rows are padding.

    Raises:
        ConfigError: `mask` is not bool[batch], or `values` have another number of rows.

    Example:
        >>> masked_mean(jnp.array([1.0, 3.0, 9.0]), jnp.array([True, True, False])).item()
        2.0
    """
    shape = getattr(mask, "shape", ())
    if len(shape) != 1 or mask.dtype != bool or getattr(values, "shape", ())[:1] != shape:
        raise ConfigError(
            "masked_mean takes values [batch, ...] and bool[batch]; got "
            f"{_kind(values)} and {_kind(mask)}. Pass a value for each row, not their mean, and "
            "batch['_mask'], which is there with remainder='pad'."
        )
    rows = jnp.reshape(mask, mask.shape + (1,) * (values.ndim - 1))
    # Not sum / count: `mean` adds up narrow floats and integers in a wider dtype.
    return jnp.mean(values, axis=0, where=rows)


def gather_examples(batch: Mapping[str, Any], tree: Any) -> tuple[Int64Array, Any]:
    """Return the results of all rows of a batch in order of example, on every process.

    Padding is left out. An example that is in the batch twice, as at the end of an epoch with
    `remainder="carry"`, counts once, with its first row. If there are several processes, each must
    call this, in the thread that runs its other collectives.

    Args:
        batch: A batch of a loader with `with_ids=True`.
        tree: Pytree of global `jax.Array`s [batch, ...], such as predictions.

    Returns:
        int64[n], the example indices in rising order, and the tree as NumPy arrays [n, ...]. Of a
        mixture, those of the first source, then those of the second, and so on; put
        `batch["_source"]` in the tree to know which.

    Raises:
        ConfigError: The batch has no `_id`, or a leaf is not a global array with one row for each
            row of the batch.

    Example::

        ids, logits = tjb.gather_examples(batch, predict(params, batch))
    """
    if ID not in batch:
        raise ConfigError(
            "gather_examples identifies rows by their example; the batch has no '_id'. "
            "Build the loader with with_ids=True."
        )
    for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
        _check_rows(jax.tree_util.keystr(keys, simple=True, separator="/"), leaf, batch[ID])
    ids, sources, mask, values = multihost_utils.process_allgather(
        (batch[ID], batch.get(SOURCE), batch.get(MASK), tree), tiled=True
    )
    # Padding has the index -1. A mask, which only remainder="pad" gives, says the same.
    real = np.flatnonzero(ids >= 0 if mask is None else mask)
    # In a mixture an index is that in the split of its source.
    pairs = np.stack([np.zeros_like(ids) if sources is None else sources, ids]).astype(np.int64)
    (_, unique_ids), first = np.unique(pairs[:, real], axis=1, return_index=True)
    return unique_ids, jax.tree.map(lambda x: x[real[first]], values)


def _kind(value: Any) -> str:
    """Return dtype and shape of an array, the type of anything else."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    return type(value).__name__


def _check_rows(path: str, leaf: Any, ids: jax.Array) -> None:
    has_rows = isinstance(leaf, jax.Array) and leaf.shape[:1] == ids.shape
    # With several processes, a local array would be gathered as a part of the whole.
    if not has_rows or leaf.is_fully_addressable != ids.is_fully_addressable:
        raise ConfigError(
            f"gather_examples takes global arrays with a row for each of the {ids.shape[0]} rows "
            f"of the batch; {path or 'the tree'} is a {type(leaf).__name__} of shape "
            f"{getattr(leaf, 'shape', None)}. Pass the output of a jitted function of the batch."
        )
