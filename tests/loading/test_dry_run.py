# SPDX-License-Identifier: Apache-2.0
"""A dry run takes neither records nor devices, and plans what the real run does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ml_collections import ConfigDict

import tfjax_batches as tjb

LAYOUT = tjb.BatchLayout.simulate({"data": 2}, "data", 4, process_of_device=2)


def copy_metadata(folder: str, target: Path) -> str:
    """Copy a prepared dataset without its data files."""
    ignore = shutil.ignore_patterns("*.tfrecord-*", ".*tfjax_batches*")
    shutil.copytree(folder, target, ignore=ignore)
    assert not list(target.rglob("*tfrecord*"))
    return os.fspath(target)


def test_dry_run_needs_neither_records_nor_devices(numbers_folder: str, tmp_path: Path) -> None:
    folder = copy_metadata(numbers_folder, tmp_path / "numbers" / "1.0.0")
    code = (
        "import tfjax_batches as tjb\n"
        "layout = tjb.BatchLayout.simulate({'data': 8, 'model': 2}, 'data', 16, 4)\n"
        f"loader = tjb.dry_run({folder!r}, layout, num_epochs=2, process_index=3)\n"
        "print(loader.describe().title)\n"
        "print(loader.element_spec['vector'].sharding.spec, loader.num_steps)\n"
        "print(loader.plan_step(0).rows.tolist())\n"
    )
    # There is no such platform: whatever asks JAX for a device fails.
    env = {**os.environ, "JAX_PLATFORMS": "no_such_platform"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stderr
    assert lines[0] == "numbers/1.0.0, split 'train'"
    assert lines[1].endswith("('data',) 2")
    assert lines[2] == "[12, 13, 14, 15]"


def test_dry_run_gives_the_rows_and_shapes_of_the_real_run(numbers_folder: str) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    real = tjb.build(
        numbers_folder,
        tjb.data_sharding(mesh),
        feature_shardings={"vector": NamedSharding(mesh, PartitionSpec())},
        global_batch_size=8,
        with_ids=True,
    )
    dry = tjb.dry_run(numbers_folder, real.layout, with_ids=True)
    shapes = jax.tree.map(
        lambda spec: (spec.shape, spec.dtype, spec.sharding.spec), real.element_spec
    )
    assert shapes == jax.tree.map(
        lambda spec: (spec.shape, spec.dtype, spec.sharding.spec), dry.element_spec
    )
    assert str(dry.describe()) == str(real.describe())
    for found, expected in zip(dry.host_batches(), real.host_batches(), strict=False):
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        break
    assert dry.fingerprint == real.fingerprint


def test_dry_run_tells_of_transforms_and_of_what_is_kept(numbers_folder: str) -> None:
    layout = tjb.BatchLayout.simulate({"data": 2}, "data", 4, process_of_device=2)
    loader = tjb.dry_run(
        numbers_folder,
        layout,
        transforms=[tjb.MapExamples(lambda example: {"half": example["vector"] / 2})],
        preprocess="keep('vector')",
        filter=tjb.FilterExamples(lambda number: number < 9, features=("number",), name="below-9"),
    )
    text = str(loader.describe())
    assert "transforms  1. keep('vector'); 2. " in text
    assert "9 of 23 examples (filter below-9)" in text
    assert list(loader.element_spec) == ["half"]


def test_dry_run_traces_a_step_for_the_pod(numbers_folder: str) -> None:
    pod = tjb.BatchLayout.simulate({"data": 64}, "data", 128, process_of_device=16)
    spec = tjb.dry_run(numbers_folder, pod, num_epochs=20).element_spec
    traced = jax.jit(lambda batch: batch["vector"].sum()).trace(spec)
    assert traced.out_info.shape == ()


def test_dry_run_has_no_devices_to_place_batches_on(numbers_folder: str) -> None:
    layout = tjb.BatchLayout.simulate({"data": 2}, "data", 4, process_of_device=2)
    loader = tjb.dry_run(numbers_folder, layout)
    with pytest.raises(tjb.LayoutError, match=r"placed on devices; .*'data': 2.* dry run\. Use ho"):
        iter(loader)


def test_dry_run_takes_the_batch_size_of_its_layout(numbers_folder: str) -> None:
    layout = tjb.BatchLayout.simulate({"data": 2}, "data", 4, process_of_device=2)
    config = tjb.BatchConfig(dataset=numbers_folder, global_batch_size=4)
    fields = ConfigDict({"dataset": numbers_folder, "global_batch_size": 8})
    assert tjb.dry_run(config, layout).config.global_batch_size == 4
    assert tjb.dry_run(fields, layout, global_batch_size=4).config.global_batch_size == 4
    bigger: dict[str, Any] = {"global_batch_size": 8}
    for given, own in [(config, bigger), (fields, {})]:
        with pytest.raises(tjb.ConfigError, match=r"layout, 4; got global_batch_size=8\. Leave it"):
            tjb.dry_run(given, layout, **own)
    with pytest.raises(tjb.LayoutError, match=r"0 <= process < 2; got process 2\."):
        tjb.dry_run(config, layout, process_index=2)


@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [
        (None, {}, "are a BatchLayout; got a NoneType"),
        (tjb.data_sharding(), {}, "are a BatchLayout; got a NamedSharding. Pass BatchLayout.sim"),
        (LAYOUT, {"process_index": "0"}, "process_index must be an integer; got '0'"),
        (LAYOUT, {"process_index": -1}, "0 <= process < 2; got process -1"),
        (LAYOUT, {"sead": 1}, r"dry_run\(\) takes the fields of BatchConfig"),
    ],
)
def test_dry_run_says_what_of_its_arguments_is_wrong(
    numbers_folder: str, layout: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(tjb.ConfigError, match=message):
        tjb.dry_run(numbers_folder, layout, **options)
