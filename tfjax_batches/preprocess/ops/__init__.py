# SPDX-License-Identifier: Apache-2.0
"""All ops that specs can name; each is a function of literals that returns a transform."""

from tfjax_batches.preprocess.ops.decode import decode, decode_central_crop, decode_random_crop
from tfjax_batches.preprocess.ops.feature import drop, keep, rename
from tfjax_batches.preprocess.ops.image import (
    central_crop,
    cutout,
    flip_lr,
    pad_crop,
    random_crop,
    resize,
)
from tfjax_batches.preprocess.ops.label import mixup, one_hot
from tfjax_batches.preprocess.ops.token import byte_tokens, pad, tokens_shift, truncate
from tfjax_batches.preprocess.ops.value import cast, normalize, value_range

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
