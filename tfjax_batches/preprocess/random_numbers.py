# SPDX-License-Identifier: Apache-2.0
"""Random numbers for all rows of a group at once, each row from its own seed.

`tf.random.stateless_*` takes one seed per call, so it would need a call for each row. Here the
numbers of a row are hashes of its seed (SplitMix64: Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", 2014), which are the same in any group.
"""

import math

import tensorflow as tf

from tfjax_batches.planning.splitmix import FACTOR_1, FACTOR_2, GOLDEN


def uniform(seeds: tf.Tensor, count: int) -> tf.Tensor:
    """Return float32[n, count], uniform in [0, 1), of 24 random bits.

    Args:
        seeds: int32[n, 2], well-mixed bits.
        count: Numbers of each row. The first numbers of a row do not depend on it.
    """
    return tf.cast(_shift(_bits(seeds, count), 40), tf.float32) * 2.0**-24


def randint(numbers: tf.Tensor, bound: tf.Tensor | int) -> tf.Tensor:
    """Return int32 in [0, bound) from uniform `numbers` in [0, 1)."""
    bound = tf.cast(bound, tf.int32)
    scaled = tf.cast(numbers * tf.cast(bound, tf.float32), tf.int32)
    return tf.minimum(scaled, bound - 1)  # a product may round up to the bound


def beta(seeds: tf.Tensor, alpha: float) -> tf.Tensor:
    """Return float32[n] of the Beta distribution with both parameters `alpha`.

    In closed form from two uniform numbers, for any `alpha`: T of Student's t distribution with
    2 alpha degrees of freedom (Bailey, "Polar Generation of Random Variates with the
    t-Distribution", 1994), as 1/2 + T / (2 sqrt(2 alpha + T²)).

    Args:
        seeds: int32[n, 2], well-mixed bits.
        alpha: Above 0.
    """
    # float64 in (0, 1), of 52 random bits.
    numbers = (tf.cast(_shift(_bits(seeds, 2), 12), tf.float64) + 0.5) * 2.0**-52
    cosine = tf.cos(2 * math.pi * numbers[:, 0])
    # 2 alpha / (T / cosine)²: 0 for a small alpha, where T is beyond any float.
    ratio = 1 / tf.math.expm1(-tf.math.log(numbers[:, 1]) / alpha)
    return tf.cast((1 + cosine / tf.sqrt(cosine**2 + ratio)) / 2, tf.float32)


def _bits(seeds: tf.Tensor, count: int) -> tf.Tensor:
    """Return int64[n, count] of 64 random bits each."""
    # Not uint64: TensorFlow's graph optimizer rounds uint64 constants to 53 bits.
    steps = [_signed(number * GOLDEN) for number in range(1, count + 1)]
    value = tf.bitcast(seeds, tf.int64)[:, tf.newaxis] + tf.constant(steps, tf.int64)
    value = _fold(value, 30) * _signed(int(FACTOR_1))
    value = _fold(value, 27) * _signed(int(FACTOR_2))
    return _fold(value, 31)


def _fold(value: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(value, _shift(value, bits))


def _shift(value: tf.Tensor, bits: int) -> tf.Tensor:
    """Shift to the right and fill with zeros; int64 would be filled with its sign."""
    shifted = tf.bitwise.right_shift(value, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(shifted, tf.constant(2 ** (64 - bits) - 1, tf.int64))


def _signed(bits: int) -> int:
    """Return the int64 of the last 64 bits."""
    return (bits + 2**63) % 2**64 - 2**63
