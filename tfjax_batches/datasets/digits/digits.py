# SPDX-License-Identifier: Apache-2.0
"""A TFDS builder of the handwritten digits that scikit-learn ships; needs no download.

Importing this module has one effect: TFDS registers the builder when its class is defined.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_datasets as tfds

from tfjax_batches.errors import MissingPackageError

INTENSITY_SCALE = 15
"""Stored intensities, 0 to 240, are the original's 0 to 16 times this: `image // 15` inverts it."""

_TEST_STRIDE = 5

_DESCRIPTION = """\
1,797 grey images of 8x8 pixels of the handwritten digits 0 to 9, as scikit-learn ships them
(`sklearn.datasets.load_digits`), which is a copy of the test set of the UCI set "Optical
Recognition of Handwritten Digits". A pixel of the original counts, from 0 to 16, the dark
points in a block of 4x4; here it is that number times 15, from 0 to 240, so that viewers show
the digits and `image // 15` loses nothing.

The split is this dataset's own: with the images sorted by label, and within a label in the
order of scikit-learn, each fifth one, from the first on, is a test image. So both splits have
their share of every digit and of every stretch of that order, in which the 13 writers seem to
follow one another.
"""

_CITATION = """\
@misc{alpaydin1998optical,
  author = {Alpaydin, E. and Kaynak, C.},
  title = {Optical Recognition of Handwritten Digits},
  year = {1998},
  howpublished = {UCI Machine Learning Repository},
  doi = {10.24432/C50P49},
}
"""


class Digits(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]  # TFDS has no types
    """The TFDS dataset "digits": features `image` and `label`, splits `train` and `test`."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}  # noqa: RUF012  # TFDS wants a plain dict

    def _info(self) -> Any:
        # The texts are in the code, not in README.md and CITATIONS.bib, where TFDS would look:
        # those are missing where a package is installed without its data files.
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            citation=_CITATION,
            homepage="https://doi.org/10.24432/C50P49",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(
                        shape=(8, 8, 1), dtype=np.uint8, encoding_format="png"
                    ),
                    "label": tfds.features.ClassLabel(names=[str(digit) for digit in range(10)]),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        del dl_manager  # nothing to download
        images, labels = _load_digits()
        by_label = np.argsort(labels, kind="stable")
        is_test = np.zeros(len(labels), dtype=bool)
        is_test[by_label[::_TEST_STRIDE]] = True
        return {
            "train": self._generate_examples(images, labels, np.flatnonzero(~is_test)),
            "test": self._generate_examples(images, labels, np.flatnonzero(is_test)),
        }

    def _generate_examples(self, images: Any, labels: Any, indices: Any) -> Iterator[Any]:
        for index in indices:
            # The key, here the index in scikit-learn's order, determines the order on disk.
            yield int(index), {"image": images[index], "label": int(labels[index])}


def _load_digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return images, uint8[1797, 8, 8, 1], and labels, int64[1797], in scikit-learn's order."""
    try:
        # Not at the top: scikit-learn is an optional package, needed only to prepare this dataset.
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingPackageError(
            "Preparing the dataset 'digits' needs scikit-learn, which holds the images; "
            f"importing it failed: {error}. Install it with `pip install 'tfjax_batches[demo]'`."
        ) from error
    digits = load_digits()
    images = (digits.images[..., np.newaxis] * INTENSITY_SCALE).astype(np.uint8)
    return images, digits.target.astype(np.int64)
