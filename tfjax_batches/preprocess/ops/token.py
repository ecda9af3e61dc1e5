# SPDX-License-Identifier: Apache-2.0
"""Ops on tokens, for language models."""

from typing import Any

import tensorflow as tf

from tfjax_batches.errors import FeatureError
from tfjax_batches.preprocess.argument_checks import (
    check_flag,
    check_integer,
    check_number,
    check_path,
)
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    Value,
    as_element,
    check_free,
    check_numeric,
    describe,
    get_feature,
    with_feature,
    without_features,
)
from tfjax_batches.preprocess.transforms import MapBatches

_BYTE_OFFSET = 3  # of ByT5: behind pad, end of text, unknown
_END_OF_TEXT = 1


def byte_tokens(key: str = "text", to: str = "tokens", eos: bool = True) -> MapBatches:
    """Turn texts into tokens, one for each byte of their UTF-8, as ByT5 has them.

    string[n] → int32[n, (bytes)], ragged: byte + 3, since 0 is padding, 1 the end of a text and 2
    unknown; 259 tokens in all. From Xue et al., "ByT5: Towards a Token-Free Future with
    Pre-trained Byte-to-Byte Models", 2022.

    Args:
        key: Path of the texts, which are left out of the result.
        to: Path of the tokens, at which there is nothing but the texts.
        eos: Put a 1 behind each text.
    """
    check_path("key", key)
    check_path("to", to)
    check_flag("eos", eos)

    def fn(batch: Batch) -> dict[str, Any]:
        texts = get_feature("byte_tokens", batch, key)
        if texts.dtype != tf.string or texts.shape.rank != 1:
            raise FeatureError(
                f"byte_tokens takes one string an example; {key!r} is {describe(texts)}. "
                "Name the texts with key."
            )
        joined = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
        tokens = tf.RaggedTensor.from_row_lengths(
            tf.cast(joined, tf.int32) + _BYTE_OFFSET, tf.cast(tf.strings.length(texts), tf.int64)
        )
        if eos:
            tokens = tf.concat([tokens, tf.fill([tf.shape(texts)[0], 1], _END_OF_TEXT)], axis=1)
        rest = without_features(batch, {key})
        check_free("byte_tokens", rest, to)
        return with_feature(rest, to, tokens)

    return MapBatches(fn)


def truncate(length: int, key: str = "tokens") -> MapBatches:
    """Cut what is longer to `length`.

    [n, (l), ...], ragged, or [n, l, ...] → the same, with no `l` above `length`.

    Args:
        length: Elements that are left, at least 1.
        key: Path of the feature.
    """
    check_integer("length", length, 1)
    check_path("key", key)

    def fn(batch: Batch) -> dict[str, Any]:
        value = _get_sequences("truncate", batch, key)
        return with_feature(batch, key, value[:, :length])

    return MapBatches(fn)


def pad(length: int, value: float = 0, key: str = "tokens") -> MapBatches:
    """Bring sequences to one length: fill short ones at their end, cut long ones.

    [n, (l), ...], ragged, or [n, l, ...] → [n, length, ...] of the same dtype.

    Args:
        length: Elements of each, at least 1.
        value: What is filled with; one that the feature's dtype holds.
        key: Path of the feature.
    """
    check_integer("length", length, 1)
    check_number("value", value)
    check_path("key", key)

    def fn(batch: Batch) -> dict[str, Any]:
        values = _get_sequences("pad", batch, key)
        check_numeric("pad", key, values)
        element = as_element("pad", "value", value, key, values)
        sizes = values.shape[2:].as_list()
        if None in sizes:
            raise FeatureError(
                f"pad makes one dim dense, where no other varies; {key!r} is {describe(values)}. "
                "Leave it on the host with keep_on_host, or leave it out."
            )
        if not isinstance(values, tf.RaggedTensor):
            values = tf.RaggedTensor.from_tensor(values)
        dense = values.to_tensor(
            tf.constant(element, values.dtype), shape=[values.shape[0], length, *sizes]
        )
        return with_feature(batch, key, dense)

    return MapBatches(fn)


def tokens_shift(key: str = "tokens", bos: int = 0, pad: int = 0) -> MapBatches:
    """Make inputs and targets of a language model, which predicts each token from those before.

    int[n, l] → `inputs` int[n, l], the tokens moved one place to the right behind `bos`;
    `targets` int[n, l], the tokens; `weights` float32[n, l], 1 where the target is not `pad` and
    0 where it is. T5 and ByT5 use 0 for both, as the decoder's start and as padding. The three
    take the place of `key`, in the same dict, which has no other feature of these names.

    Args:
        key: Path of the tokens.
        bos: Token that the inputs begin with; it and `pad` are ones that the tokens' dtype holds.
        pad: Token that fills short texts.
    """
    check_path("key", key)
    check_integer("bos", bos, 0)
    check_integer("pad", pad, 0)
    above = key.rpartition("/")[0]
    names = {name: f"{above}/{name}".lstrip("/") for name in ("inputs", "targets", "weights")}

    def fn(batch: Batch) -> dict[str, Any]:
        tokens = get_feature("tokens_shift", batch, key)
        if (
            isinstance(tokens, tf.RaggedTensor)
            or tokens.shape.rank != 2
            or not tokens.dtype.is_integer
        ):
            mend = (
                "Put pad in front."
                if isinstance(tokens, tf.RaggedTensor)
                else "Name the tokens with key."
            )
            raise FeatureError(
                f"tokens_shift takes integer tokens [n, l]; {key!r} is {describe(tokens)}. {mend}"
            )
        first = as_element("tokens_shift", "bos", bos, key, tokens)
        filler = as_element("tokens_shift", "pad", pad, key, tokens)
        shifted = tf.pad(tokens[:, :-1], [[0, 0], [1, 0]], constant_values=first)
        result = without_features(batch, {key})
        for new in names.values():
            check_free("tokens_shift", result, new)
        result = with_feature(result, names["inputs"], tf.ensure_shape(shifted, tokens.shape))
        result = with_feature(result, names["targets"], tokens)
        return with_feature(result, names["weights"], tf.cast(tokens != filler, tf.float32))

    return MapBatches(fn)


def _get_sequences(op: str, batch: Batch, path: str) -> Value:
    value = get_feature(op, batch, path)
    if value.shape.rank < 2:
        raise FeatureError(
            f"{op} takes sequences [n, l, ...]; {path!r} is {describe(value)}. "
            "Put byte_tokens in front of texts, or name another feature with key."
        )
    return value
