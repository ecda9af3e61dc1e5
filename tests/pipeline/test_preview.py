# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import tfjax_batches as tjb
from tests.preprocess.test_chain import DECODE, TRANSFORMS, build, scale
from tfjax_batches.features.paths import flatten, path_text


def test_preview_shows_the_first_rows_after_each_stage(numbers_folder: str) -> None:
    loader = build(numbers_folder, [DECODE, *TRANSFORMS])
    stages = loader.preview(7)
    assert list(stages) == [
        "decoded",
        "1. decode_image",
        "2. jitter",
        "3. fold_label",
        "4. crop",
        "5. scale",
        "6. shift_rows",
        "7. mix_pairs",
    ]
    examples = loader.plan.plan_rows(0, np.arange(7)).examples
    assert stages["decoded"]["number"].tolist() == examples.tolist()
    assert all(image.startswith(b"\x89PNG") for image in stages["decoded"]["nested"]["image"])
    assert stages["5. scale"]["number"].tolist() == (3 * examples).tolist()
    batch = flatten(next(loader.host_batches()))
    for path, values in flatten(stages["7. mix_pairs"]).items():
        np.testing.assert_array_equal(values, batch[path][:7], err_msg=path_text(path))


def test_preview_goes_beyond_a_batch_and_needs_no_transform(things_folder: str) -> None:
    loader = tjb.build(
        things_folder,
        global_batch_size=4,
        shuffle="none",
        remainder="pad",
        features=("number", "photo", "words"),
        keep_on_host=("photo", "words"),
    )
    ((stage, features),) = loader.preview(11).items()
    assert stage == "decoded"
    assert features["number"].tolist() == list(range(11))
    assert [photo.shape for photo in features["photo"]] == [(2 + i % 3, 3, 3) for i in range(11)]
    assert features["words"][3].tolist() == [b"word 0", b"word 1", b"word 2"]


@pytest.mark.parametrize("n", [0, -1, 24, 2.0, True])
def test_preview_of_no_or_too_many_examples_is_refused(numbers_folder: str, n: int) -> None:
    with pytest.raises(tjb.ConfigError, match=rf"1 <= n <= 23; got {n!r}\. Ask for fewer"):
        build(numbers_folder, [tjb.MapBatches(scale)]).preview(n)
