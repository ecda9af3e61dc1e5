# SPDX-License-Identifier: Apache-2.0
"""The TFDS dataset "digits": `tfds.builder("digits")` works after this import."""

from tfjax_batches.datasets.digits.digits import INTENSITY_SCALE, Digits

__all__ = ["INTENSITY_SCALE", "Digits"]
