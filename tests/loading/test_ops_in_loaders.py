# SPDX-License-Identifier: Apache-2.0
"""Op strings do in a loader what they do alone, for any groups."""

from typing import Any

import jax
import numpy as np
import pytest

import tfjax_batches as tjb
from tests.made_datasets import number_example, thing_example

AUGMENT = (
    "drop('number', 'nested/even')|random_crop(3, padding=1, key='nested/image')"
    "|flip_lr('nested/image')|cutout(2, key='nested/image')|value_range(-1, 1, 'nested/image')"
    "|one_hot(3)|mixup(0.4, key='nested/image')|rename('nested/image', 'image')"
)


def read(folder: str, count: int, **fields: Any) -> list[Any]:
    loader = tjb.build(folder, **fields)
    with iter(loader) as batches:
        return [jax.device_get(next(batches)) for _ in range(count)]


def test_ops_augment_alike_in_any_groups_and_differently_each_epoch(numbers_folder: str) -> None:
    fields = {"preprocess": AUGMENT, "global_batch_size": 8, "shuffle": "none"}
    whole = read(numbers_folder, 6, **fields)
    parts = read(numbers_folder, 6, **fields, group_size=2, num_parallel_calls=1)
    jax.tree.map(np.testing.assert_array_equal, whole, parts)
    assert sorted(whole[0]) == ["image", "label", "vector"]
    assert whole[0]["image"].shape == (8, 3, 3, 3)
    images = np.concatenate([batch["image"] for batch in whole])
    assert not np.array_equal(images[:8], images[23:31])  # the same examples, an epoch later


def test_mixup_keeps_padding_out(numbers_folder: str) -> None:
    ops = "keep('vector', 'label')|one_hot(3)|mixup(1.0, key='vector')"
    last = read(
        numbers_folder,
        3,
        preprocess=ops,
        global_batch_size=8,
        shuffle="none",
        num_epochs=1,
        remainder="pad",
    )[-1]
    example = number_example(22)
    assert last["_mask"].tolist() == [True] * 7 + [False]
    np.testing.assert_array_equal(last["vector"][6], example["vector"])
    np.testing.assert_array_equal(last["label"][6], np.eye(3)[example["label"]])
    assert not last["label"][7].any()


def test_ops_decode_stored_images_and_texts_themselves(things_folder: str) -> None:
    ops = (
        "keep('photo', 'text')|decode('photo')|pad_crop((4, 3), 'photo')"
        "|byte_tokens|pad(8, key='tokens')"
    )
    batch = read(
        things_folder,
        1,
        preprocess=ops,
        features=("photo", "text"),
        global_batch_size=8,
        shuffle="none",
    )[0]
    for number in range(8):
        example = thing_example(number)
        photo = example["photo"]
        above = (4 - photo.shape[0]) // 2
        expected = np.zeros((4, 3, 3), np.uint8)
        expected[above : above + photo.shape[0]] = photo
        np.testing.assert_array_equal(batch["photo"][number], expected)
        tokens = [byte + 3 for byte in example["text"].encode()] + [1]
        assert batch["tokens"][number].tolist() == (tokens + [0] * 8)[:8]


@pytest.mark.parametrize(
    ("ops", "texts"),
    [
        ("flip_lr", ["1. flip_lr fails", "'image' is not", "key"]),
        ("keep('label')|one_hot(3)|one_hot(3)", ["3. one_hot(3)", "float32"]),
        ("flip", ["there is no 'flip'", "Did you mean 'flip_lr'?"]),
    ],
)
def test_build_op_that_does_not_fit_is_an_error(
    numbers_folder: str, ops: str, texts: list[str]
) -> None:
    with pytest.raises(tjb.BatchesError) as caught:
        tjb.build(numbers_folder, preprocess=ops, global_batch_size=8)
    message = " ".join(str(caught.value).split())
    assert all(text in message for text in texts), message
