# SPDX-License-Identifier: Apache-2.0
"""The TFDS dataset "digits"; importing this makes `tfds.builder("digits")` work."""

from tfjax_batches.datasets.digits.digits import INTENSITY_SCALE, Digits

__all__ = ["INTENSITY_SCALE", "Digits"]
