# SPDX-License-Identifier: Apache-2.0
"""An op that another library has by another name is answered with ours, which can be built."""

import re

import pytest

from tfjax_batches.errors import ConfigError
from tfjax_batches.preprocess.registry import build_transforms

NAMES = (
    "decode_jpeg_and_inception_crop",
    "decode_resize_small",
    "onehot",
    "randaug",
    "vgg_value_range",
    "CenterCrop",
    "RandAugment",
    "random_cutout",
    "RandomFlip",
    "random_flip_left_right",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Rescaling",
    "ToTensor",
)


@pytest.mark.parametrize("name", NAMES)
def test_op_of_another_library_is_answered_with_one_that_can_be_built(name: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no '{name}'") as caught:
        build_transforms(f"{name}(2, 3)")
    (ops,) = re.findall(r"\nWrite (.*)\.$", str(caught.value))
    assert build_transforms(ops)
