# SPDX-License-Identifier: Apache-2.0
"""All ops that specs can name; each is a function of literals that returns a transform."""

from tfjax_batches.preprocess.decode_ops import decode, decode_central_crop, decode_random_crop
from tfjax_batches.preprocess.feature_ops import drop, keep, rename
from tfjax_batches.preprocess.image_ops import (
    central_crop,
    cutout,
    flip_lr,
    pad_crop,
    random_crop,
    resize,
)
from tfjax_batches.preprocess.label_ops import mixup, one_hot
from tfjax_batches.preprocess.token_ops import byte_tokens, pad, tokens_shift, truncate
from tfjax_batches.preprocess.value_ops import cast, normalize, value_range

OPS = (
    byte_tokens,
    cast,
    central_crop,
    cutout,
    decode,
    decode_central_crop,
    decode_random_crop,
    drop,
    flip_lr,
    keep,
    mixup,
    normalize,
    one_hot,
    pad,
    pad_crop,
    random_crop,
    rename,
    resize,
    tokens_shift,
    truncate,
    value_range,
)
"""By name, sorted."""
