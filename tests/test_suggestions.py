# SPDX-License-Identifier: Apache-2.0
"""Each kind of name that a user writes, misspelt: the error names the nearest."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from absl import flags
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tfjax_batches.commands import main
from tfjax_batches.planning.layout import BatchLayout

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def build(folder: str, sharding: NamedSharding | None = None, **fields: Any) -> object:
    return tjb.build(folder, sharding, **{"global_batch_size": 4, **fields})


def defined() -> flags.FlagValues:
    """Return flags of their own, defined and not parsed."""
    values = flags.FlagValues()
    tjb.define_batch_flags(flag_values=values)
    return values


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda folder: build("mnits"), "mnist"),
        (lambda folder: build("nubmers", data_dir=str(Path(folder).parents[1])), "numbers"),
        (lambda folder: build(folder, split="tset"), "test"),
        (lambda folder: build(folder, split="trian[:50%]"), "train"),
        (lambda folder: build(folder, features=("nested/imgae",)), "nested/image"),
        (lambda folder: build(folder, keep_on_host=("lable",)), "label"),
        (lambda folder: build(folder, pad_to={"vectr": 3}), "vector"),
        (lambda folder: build(folder, preprocess="flip_rl"), "flip_lr"),
        (lambda folder: build(folder, preprocess="flip_lr(key='nested/imag')"), "nested/image"),
        (lambda folder: build(folder, remainder="cary"), "carry"),
        (lambda folder: build(folder, shuffle="globl"), "global"),
        (lambda folder: build(folder, prefetch_dept=1), "prefetch_depth"),
        (lambda folder: tjb.data_sharding(MESH, "modle"), "model"),
        (lambda folder: BatchLayout.simulate({"data": 2}, "dat", 4, 2), "data"),
        (
            lambda folder: build(
                folder,
                tjb.data_sharding(MESH),
                feature_shardings={"vektor": NamedSharding(MESH, PartitionSpec())},
            ),
            "vector",
        ),
        (lambda folder: tjb.show({"image": np.zeros((1, 2, 2, 3))}, image="imgae"), "image"),
        (lambda folder: tjb.batch_config_from_flags(flag_values=defined(), sead=1), "seed"),
    ],
)
def test_misspelt_name_is_answered_with_the_nearest(
    numbers_folder: str, call: Callable[[str], object], nearest: str
) -> None:
    with pytest.raises(tjb.BatchesError) as caught:
        call(numbers_folder)
    assert f"Did you mean {nearest!r}?" in str(caught.value)


def test_misspelt_config_of_a_dataset_is_shown_with_what_may_be_wrong() -> None:
    with pytest.raises(tjb.DatasetNotFoundError, match=r"'glue/coal'.*coal.*name, config or ver"):
        build("glue/coal")


def test_name_like_no_other_is_not_answered_with_all_that_there_are(numbers_folder: str) -> None:
    with pytest.raises(tjb.DatasetNotFoundError, match=r"None of the \d+ known "):
        build("qqqqqqqqqqqq")
    with pytest.raises(tjb.FeatureError, match=r"Known: 'label', 'nested/even', 'nested/image'"):
        build(numbers_folder, features=("qqqqqq",))


def test_misspelt_name_of_the_package_is_answered_by_python() -> None:
    code = "import tfjax_batches as tjb; tjb.chek_replicas"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Did you mean: 'check_replicas'?" in result.stderr


def test_misspelt_command_is_answered_with_all_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["verfy"])
    assert "verify" in capsys.readouterr().err
