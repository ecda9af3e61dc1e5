# SPDX-License-Identifier: Apache-2.0
"""Ops on tokens, for language models."""

from typing import Any

import tensorflow as tf

from tfjax_batches.features.paths import Name, to_path
from tfjax_batches.features.rows import Value
from tfjax_batches.preprocess.argument_checks import (
    check_flag,
    check_integer,
    check_name,
    check_number,
)
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    as_element,
    check_feature,
    check_free,
    get_feature,
    map_feature,
    path_of,
    with_feature,
    without_features,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.transforms import MapBatches

_BYTE_OFFSET = 3  # of ByT5: after pad, end of text, unknown
_END_OF_TEXT = 1


@op
def byte_tokens(key: Name = "text", to: Name = "tokens", eos: bool = True) -> MapBatches:
    """Turn texts into tokens, one for each byte of their UTF-8, as ByT5 does.

    string[n] → int32[n, (bytes)], ragged: byte + 3, since 0 is padding, 1 the end of a text and 2
    unknown; 259 tokens in all. From Xue et al., "ByT5: Towards a Token-Free Future with
    Pre-trained Byte-to-Byte Models", 2022.

    Args:
        key: Name of the texts, which are left out of the result.
        to: Name of the tokens; no feature except the texts may have it.
        eos: Whether to put a 1 after each text.

    Raises:
        ConfigError: `key` or `to` is not a name, or `eos` is not a bool.
        FeatureError: The texts are missing or not one string an example, or `to` is taken.
    """
    check_name("key", key)
    check_name("to", to)
    check_flag("eos", eos)

    def fn(batch: Batch) -> dict[str, Any]:
        texts = get_feature(batch, key)
        are_texts = texts.dtype == tf.string and texts.shape.rank == 1
        fix = "Name the texts with key."
        check_feature(are_texts, "Texts must be one string an example", key, texts, fix)
        joined = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
        tokens = tf.RaggedTensor.from_row_lengths(
            tf.cast(joined, tf.int32) + _BYTE_OFFSET, tf.cast(tf.strings.length(texts), tf.int64)
        )
        if eos:
            tokens = tf.concat([tokens, tf.fill([tf.shape(texts)[0], 1], _END_OF_TEXT)], axis=1)
        rest = without_features(batch, {path_of(batch, key)})
        check_free(rest, to_path(to))
        return with_feature(rest, to_path(to), tokens)

    return MapBatches(fn)


@op
def truncate(length: int, key: Name = "tokens") -> MapBatches:
    """Cut sequences that are longer than `length`.

    [n, (l), ...], ragged, or [n, l, ...] → the same, with `l` at most `length`.

    Args:
        length: Largest number of elements, at least 1.
        key: Name of the feature.

    Raises:
        ConfigError: `length` is not such an integer, or `key` is not a name.
        FeatureError: The feature is missing or not sequences.
    """
    check_integer("length", length, 1)
    return map_feature(lambda value: value[:, :length], key, get=_get_sequences)


@op
def pad(length: int, value: float = 0, key: Name = "tokens") -> MapBatches:
    """Bring sequences to one length: fill short ones at their end, cut long ones.

    [n, (l), ...], ragged, or [n, l, ...] → [n, length, ...] of the same dtype.

    Args:
        length: Elements of each sequence, at least 1.
        value: What fills the end; the feature's dtype must be able to hold it.
        key: Name of the feature.

    Raises:
        ConfigError: `length` or `value` is not such a number, or `key` is not a name.
        FeatureError: The feature is missing, not sequences of numbers, has another dim that
            varies, or cannot hold `value`.
    """
    check_integer("length", length, 1)
    check_number("value", value)

    def fn(values: Value) -> tf.Tensor:
        sizes = values.shape[2:]
        fits = values.dtype != tf.string and sizes.is_fully_defined()
        rule = "Only numbers can be padded, in the first dim of an example"
        fix = "Put byte_tokens in front of texts; leave others on the host with keep_on_host."
        check_feature(fits, rule, key, values, fix)
        element = as_element("value", value, key, values)
        if not isinstance(values, tf.RaggedTensor):
            values = tf.RaggedTensor.from_tensor(values)
        return values.to_tensor(
            tf.constant(element, values.dtype), shape=[values.shape[0], length, *sizes]
        )

    return map_feature(fn, key, get=_get_sequences)


@op
def tokens_shift(key: Name = "tokens", bos: int = 0, pad: int = 0) -> MapBatches:
    """Make inputs and targets of a language model, which predicts each token from those before.

    int[n, l] → `inputs` int[n, l], the tokens moved one to the right after `bos`; `targets`
    int[n, l], the tokens; `weights` float32[n, l], 0 where the target is `pad` and 1 elsewhere. T5
    and ByT5 use 0 for both, as the decoder's start and as padding. The three replace `key`, in the
    same dict, where no other feature may have these names.

    Args:
        key: Name of the tokens.
        bos: Token that the inputs begin with; the tokens' dtype must be able to hold it.
        pad: Token that fills short texts; the tokens' dtype must be able to hold it.

    Raises:
        ConfigError: `key` is not a name, or `bos` or `pad` is not an integer of at least 0.
        FeatureError: The feature is missing, not integers [n, l], cannot hold `bos` or `pad`, or
            one of the three names is taken.
    """
    check_name("key", key)
    check_integer("bos", bos, 0)
    check_integer("pad", pad, 0)

    def fn(batch: Batch) -> dict[str, Any]:
        tokens = get_feature(batch, key)
        is_matrix = isinstance(tokens, tf.Tensor) and tokens.shape.rank == 2
        are_tokens = is_matrix and tokens.dtype.is_integer
        fix = "Put pad in front, or name the tokens with key."
        check_feature(are_tokens, "Tokens must be integers [n, l]", key, tokens, fix)
        first = as_element("bos", bos, key, tokens)
        filler = as_element("pad", pad, key, tokens)
        shifted = tf.pad(tokens[:, :-1], [[0, 0], [1, 0]], constant_values=first)
        new = {
            "inputs": tf.ensure_shape(shifted, tokens.shape),
            "targets": tokens,
            "weights": tf.cast(tokens != filler, tf.float32),
        }
        path = path_of(batch, key)
        result = without_features(batch, {path})
        for name, value in new.items():
            path = (*path[:-1], name)
            check_free(result, path)
            result = with_feature(result, path, value)
        return result

    return MapBatches(fn)


def _get_sequences(batch: Batch, name: Name) -> Value:
    value = get_feature(batch, name)
    fix = "Put byte_tokens in front of texts, or name another feature with key."
    check_feature(value.shape.rank >= 2, "Sequences must be [n, l, ...]", name, value, fix)
    return value
