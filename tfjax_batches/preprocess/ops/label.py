# SPDX-License-Identifier: Apache-2.0
"""Ops on labels, and on images together with their labels."""

from typing import Any

import tensorflow as tf

from tfjax_batches.errors import ConfigError
from tfjax_batches.features.paths import Name
from tfjax_batches.features.rows import Value
from tfjax_batches.preprocess.argument_checks import check_integer, check_name, check_number
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_feature,
    get_feature,
    map_feature,
    path_of,
    with_feature,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.random_numbers import beta
from tfjax_batches.preprocess.transforms import MapBatches


@op
def one_hot(num_classes: int, key: Name = "label") -> MapBatches:
    """Turn labels into vectors with a one at the label's index.

    integer [n, ...] → float32 [n, ..., num_classes]. A label of -1, which TFDS uses for a missing
    label, becomes zeros; any other label without a class is an error when the example is read.

    Args:
        num_classes: Length of the vectors, at least 1.
        key: Name of the labels.

    Raises:
        ConfigError: `num_classes` is not such an integer, or `key` is not a name.
        FeatureError: The feature is missing, is not integers, or is ragged.
    """
    check_integer("num_classes", num_classes, 1)

    def fn(labels: Value) -> tf.Tensor:
        are_labels = isinstance(labels, tf.Tensor) and labels.dtype.is_integer
        fix = "Name the labels with key."
        check_feature(are_labels, "Labels must be integers [n, ...]", key, labels, fix)
        labels = tf.cast(labels, tf.int64)
        tf.debugging.assert_equal(
            tf.reduce_all((labels >= -1) & (labels < num_classes)),
            True,
            f"Labels must be below num_classes={num_classes}; some of {key!r} are not. "
            "Raise num_classes.",
        )
        return tf.one_hot(labels, num_classes)

    return map_feature(fn, key)


@op
def mixup(alpha: float, key: Name = "image", label: Name = "label") -> MapBatches:
    """Mix rows 2i and 2i + 1 of the batch: the images, and the labels in the same proportion.

    float images [n, ...] and float labels [n, classes] → the same. Each row keeps a share `s` of
    itself and takes `1 - s` of the other row; `s` is drawn for each row from Beta(alpha, alpha).
    Both rows of a pair are on one process, so no data moves. From Zhang et al., "mixup: Beyond
    Empirical Risk Minimization", 2018, who draw one `s` for a batch and pair at random; with
    shuffling, pairs are random here too. A row that is paired with padding does not change.

    Args:
        alpha: Of the distribution, above 0. Near 0: hardly mixed; 1: all shares equally likely.
        key: Name of the images.
        label: Name of the labels, as vectors (see `one_hot`).

    Raises:
        ConfigError: `alpha` is not above 0, or `key` and `label` are not two names.
        FeatureError: A feature is missing, is not floats, or is ragged.
    """
    check_number("alpha", alpha, above=0)
    check_name("key", key)
    check_name("label", label)
    if key == label:
        raise ConfigError(
            f"mixup mixes two features, images and labels; got {key!r} for both. "
            "Write key='image', label='label'."
        )

    def fn(batch: Batch, seeds: tf.Tensor) -> dict[str, Any]:
        share = _keep_from_padding(beta(seeds, alpha), seeds)
        for name, maker in ((key, "value_range or normalize"), (label, "one_hot")):
            value = get_feature(batch, name)
            are_floats = isinstance(value, tf.Tensor) and value.dtype.is_floating
            rule, fix = "Features to mix must be floats [n, ...]", f"Put {maker} in front."
            check_feature(are_floats, rule, name, value, fix)
            batch = with_feature(batch, path_of(batch, name), _mix_pairs(value, share))
        return dict(batch)

    return MapBatches(fn, random=True, row_multiple=2)


def _keep_from_padding(share: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Return the share, or 1 if the other row of the pair is padding: its seed is zeros."""
    is_real = tf.reduce_any(seeds != 0, axis=1)
    other_is_real = tf.reshape(tf.reverse(tf.reshape(is_real, [-1, 2]), [1]), [-1])
    return tf.where(other_is_real, share, 1.0)


def _mix_pairs(value: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Return `share` of each row plus the rest of the other row of its pair."""
    flat = tf.reshape(value, [tf.shape(value)[0], -1])
    pairs = tf.reshape(flat, [-1, 2, tf.shape(flat)[1]])
    others = tf.reshape(tf.reverse(pairs, [1]), tf.shape(flat))
    weight = tf.cast(share, value.dtype)[:, tf.newaxis]
    return tf.ensure_shape(
        tf.reshape(weight * flat + (1 - weight) * others, tf.shape(value)), value.shape
    )
