# SPDX-License-Identifier: Apache-2.0
"""Mixing of 64-bit values, for orders and seeds, which both depend on its exact values."""

import numpy as np
import numpy.typing as npt

Uint64Array = npt.NDArray[np.uint64]

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, as SplitMix64 uses it
MASK64 = 2**64 - 1
FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
FACTOR_2 = np.uint64(0x94D049BB133111EB)


def mix(value: Uint64Array) -> Uint64Array:
    """Return well-mixed values, uint64 of any shape.

    The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
    Generators", 2014).
    """
    value = (value ^ (value >> np.uint64(30))) * FACTOR_1
    value = (value ^ (value >> np.uint64(27))) * FACTOR_2
    return value ^ (value >> np.uint64(31))


def mix_seed(seed: int) -> Uint64Array:
    """Return a seed, any int that fits 64 bits, as a mixed uint64[1]."""
    return mix(np.array([(seed + GOLDEN) & MASK64], np.uint64))
