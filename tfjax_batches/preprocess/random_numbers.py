# SPDX-License-Identifier: Apache-2.0
"""Random numbers for the rows of a group, all at once, each row by its own seed.

`tf.random.stateless_*` takes one seed a call, which would be a call for each row. Here the
numbers of a row are hashes of its seed (SplitMix64: Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", 2014), and so are the same in every group.
"""

import math

import tensorflow as tf

_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio
_FACTOR_1 = 0xBF58476D1CE4E5B9
_FACTOR_2 = 0x94D049BB133111EB

_TRIES = 16  # a gamma's; each is taken with a chance above 0.95


def uniform(seeds: tf.Tensor, count: int) -> tf.Tensor:
    """Return float32[n, count], uniform in [0, 1), by 24 bits.

    Args:
        seeds: int32[n, 2], well-mixed bits.
        count: Numbers of each row. A row's first numbers do not depend on it.
    """
    return tf.cast(_shift(_bits(seeds, count), 40), tf.float32) * 2.0**-24


def randint(numbers: tf.Tensor, bound: tf.Tensor | int) -> tf.Tensor:
    """Return int32 below `bound`, at least 0, from uniform `numbers` of `uniform`."""
    bound = tf.cast(bound, tf.int32)
    scaled = tf.cast(numbers * tf.cast(bound, tf.float32), tf.int32)
    return tf.minimum(scaled, bound - 1)  # a product may round up to the bound


def beta(seeds: tf.Tensor, alpha: float) -> tf.Tensor:
    """Return float32[n], of the Beta distribution with both parameters `alpha`.

    x / (x + y) of two gammas, from their logarithms: for a small `alpha` both are too small for
    any float.

    Args:
        seeds: int32[n, 2], well-mixed bits.
        alpha: Above 0.
    """
    count = 3 * _TRIES + 1
    numbers = _uniform64(seeds, 2 * count)
    first = _log_gamma(numbers[:, :count], alpha)
    second = _log_gamma(numbers[:, count:], alpha)
    return tf.cast(tf.sigmoid(first - second), tf.float32)


def _log_gamma(numbers: tf.Tensor, alpha: float) -> tf.Tensor:
    """Return float64[n], logarithms of gamma variables of shape `alpha`.

    Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000, with the tries
    side by side: a squeezed cube of a normal for `alpha + 1`, times a power of a uniform.

    Args:
        numbers: float64[n, 3 * _TRIES + 1], uniform in (0, 1).
        alpha: Above 0.
    """
    radius, angle, level, last = tf.split(numbers, [_TRIES, _TRIES, _TRIES, 1], axis=1)
    normal = tf.sqrt(-2 * tf.math.log(radius)) * tf.cos(2 * math.pi * angle)  # Box-Muller
    shape = alpha + 1 - 1 / 3
    cube = (1 + normal / math.sqrt(9 * shape)) ** 3
    log_cube = tf.math.log(tf.where(cube > 0, cube, 1))
    is_taken = tf.math.log(level) < normal**2 / 2 + shape * (1 - cube + log_cube)
    is_taken = tf.logical_and(cube > 0, is_taken)
    chosen = tf.argmax(is_taken, axis=1)  # the first; with a chance of 1e-20 none is, and it is 0
    log_cube = tf.gather(log_cube, chosen, axis=1, batch_dims=1)
    return math.log(shape) + log_cube + tf.math.log(last[:, 0]) / alpha


def _uniform64(seeds: tf.Tensor, count: int) -> tf.Tensor:
    """Return float64[n, count], uniform in (0, 1), by 52 bits."""
    return (tf.cast(_shift(_bits(seeds, count), 12), tf.float64) + 0.5) * 2.0**-52


def _bits(seeds: tf.Tensor, count: int) -> tf.Tensor:
    """Return int64[n, count], all bits of which are random."""
    # Not uint64: TensorFlow's graph optimizer rounds constants of it to 53 bits.
    steps = [_signed(number * _GOLDEN) for number in range(1, count + 1)]
    value = tf.bitcast(seeds, tf.int64)[:, tf.newaxis] + tf.constant(steps, tf.int64)
    value = _fold(value, 30) * _signed(_FACTOR_1)
    value = _fold(value, 27) * _signed(_FACTOR_2)
    return _fold(value, 31)


def _fold(value: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(value, _shift(value, bits))


def _shift(value: tf.Tensor, bits: int) -> tf.Tensor:
    """Shift to the right, and zeros in; that of int64 would put in the sign."""
    shifted = tf.bitwise.right_shift(value, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(shifted, tf.constant(2 ** (64 - bits) - 1, tf.int64))


def _signed(bits: int) -> int:
    """Return the int64 of the last 64 bits."""
    return (bits + 2**63) % 2**64 - 2**63
