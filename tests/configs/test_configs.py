# SPDX-License-Identifier: Apache-2.0
"""Each file of configs/ loads, takes flags, builds, and delivers the batches it describes."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from ml_collections import config_flags

import tfjax_batches as tjb
from configs import cifar10, imagenet
from tests.configs.made_datasets import BUILDERS, COUNT, WORDS, make_image

FOLDER = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS folder that holds all datasets."""
    folder = str(tmp_path_factory.mktemp("configs"))
    for builder in BUILDERS.values():
        builder(data_dir=folder).download_and_prepare()
    return folder


def load(name: str, *overrides: str) -> Any:
    """Return the config of a file, with flags applied as scripts/train.py applies them."""
    values = flags.FlagValues()
    argv = ["program", *(f"--config.{override}" for override in overrides)]
    config_flags.DEFINE_config_file(
        "config", str(FOLDER / f"{name}.py"), flag_values=values, sys_argv=argv
    )
    values(argv)
    return values["config"].value


def build(name: str, data_dir: str, *overrides: str) -> tjb.BatchLoader:
    small = ["batches.global_batch_size=4", "batches.shuffle=none", f"batches.data_dir={data_dir}"]
    return tjb.build(load(name, *small, *overrides).batches)


def read(loader: tjb.BatchLoader, count: int) -> list[Any]:
    with iter(loader) as batches:
        return [jax.device_get(next(batches)) for _ in range(count)]


def build_eval(name: str, data_dir: str) -> tjb.BatchLoader:
    config = load(name, f"batches.data_dir={data_dir}", "batches.global_batch_size=4")
    return tjb.build(
        config.batches,
        split=config.eval_split,
        preprocess=config.eval_preprocess or config.batches.preprocess,
        shuffle="none",
        num_epochs=1,
        remainder="pad",
    )


@pytest.mark.parametrize("name", sorted({p.stem for p in FOLDER.glob("*.py")} - {"mixture"}))
def test_configs_load_and_take_flags(name: str) -> None:
    config = load(
        name,
        "batches.seed=7",
        "batches.preprocess=flip_lr|cast('int32')",
        "eval_preprocess=flip_lr",
        "data_axes=('x',)",
    )
    assert (config.batches.seed, config.data_axes) == (7, ("x",))
    assert config.batches.preprocess == "flip_lr|cast('int32')"
    assert config.eval_preprocess == "flip_lr"
    config.batches.checked()


@pytest.mark.parametrize("name", BUILDERS)
def test_configs_training_batches_have_their_specs(name: str, data_dir: str) -> None:
    loader = build(name, data_dir)
    for batch in read(loader, 3):
        specs = jax.tree.map(lambda x: (x.shape, x.dtype), batch)
        assert specs == jax.tree.map(lambda x: (x.shape, x.dtype), loader.element_spec)
    assert loader.num_examples == COUNT


@pytest.mark.parametrize("name", BUILDERS)
def test_configs_evaluation_holds_each_example_once(name: str, data_dir: str) -> None:
    loader = build_eval(name, data_dir)
    batches = read(loader, len(loader))
    assert sum(batch["_mask"].sum() for batch in batches) == COUNT


def test_imagenet_crops_are_of_every_example_and_differ_between_epochs(data_dir: str) -> None:
    loader = build("imagenet", data_dir)
    assert loader.element_spec["image"].shape == (4, 224, 224, 3)
    assert loader.element_spec["image"].dtype == np.float32
    assert sorted(loader.element_spec) == ["image", "label"]
    assert loader.label_names["label"][0] == "n01440764"
    batches = read(loader, 6)
    labels = np.concatenate([batch["label"] for batch in batches])
    assert labels.tolist() == [80 * number for number in range(COUNT)] * 2
    images = np.concatenate([batch["image"] for batch in batches])
    assert -2.2 < images.min() < images.max() < 2.7
    assert all(not np.array_equal(images[i], images[i + COUNT]) for i in range(COUNT))


def test_imagenet_evaluates_the_middle_of_the_image(data_dir: str) -> None:
    batches = read(build_eval("imagenet", data_dir), 2)
    image = batches[1]["image"][1]  # example 5, a PNG of 350 × 300
    size = round(300 * 224 / 256)
    top, left = (350 - size) // 2, (300 - size) // 2
    middle = make_image(5, 350, 300)[top : top + size, left : left + size]
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    exact = tf.image.resize(middle / 255, (224, 224)).numpy()
    assert np.abs(image * std + mean - exact).max() < 0.5 / 255 + 1e-4


def test_imagenet_images_of_any_transform_can_be_overridden(data_dir: str) -> None:
    loader = build("imagenet", data_dir, "batches.preprocess=decode_central_crop((8, 16))")
    assert loader.element_spec["image"].shape == (4, 8, 16, 3)
    assert loader.element_spec["image"].dtype == np.uint8


def test_cifar10_trains_on_shifted_images_and_evaluates_whole_ones(data_dir: str) -> None:
    evaluated = np.concatenate([b["image"] for b in read(build_eval("cifar10", data_dir), 3)])
    exact = np.stack([make_image(number, 32, 32) for number in range(COUNT)]) / 255
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    np.testing.assert_allclose(evaluated, (exact - mean) / std, atol=1e-5)
    trained = np.concatenate([b["image"] for b in read(build("cifar10", data_dir), 3)])
    assert trained.shape == evaluated.shape
    assert not np.allclose(trained, evaluated)
    assert cifar10.NORMALIZE in cifar10.get_config().batches.preprocess


def test_mnist_images_lie_between_minus_one_and_one(data_dir: str) -> None:
    images = read(build("mnist", data_dir), 1)[0]["image"]
    exact = np.stack([make_image(number, 28, 28, 1) for number in range(4)]) / 127.5 - 1
    np.testing.assert_allclose(images, exact, atol=1e-6)


def test_c4_rows_are_the_bytes_of_pages(data_dir: str) -> None:
    batches = read(build("c4", data_dir), 3)
    for number in range(COUNT):
        row = {name: value[number % 4] for name, value in batches[number // 4].items()}
        tokens = [byte + 3 for byte in (WORDS * (5 * number)).encode()] + [1]
        targets = (tokens + [0] * 1024)[:1024]
        assert row["targets"].tolist() == targets
        assert row["inputs"].tolist() == [0, *targets[:-1]]
        assert row["weights"].sum() == min(len(tokens), 1024)


def test_mixture_takes_flags_and_delivers_its_weights(digits_data_dir: str) -> None:
    config = load(
        "mixture",
        "batches.weights={'plain': 0.75, 'changed': 0.25}",
        "batches.global_batch_size=16",
        "data_axes=('x',)",
    )
    assert config.data_axes == ("x",)
    folders = {
        name: dataclasses.replace(source, data_dir=digits_data_dir)
        for name, source in config.batches.sources.items()
    }
    loader = tjb.build(config.batches, sources=folders)
    assert loader.num_steps == 20 * 1437 * 4 // 3 // 16  # where `plain` has had its 20 epochs
    assert loader.label_names["label"][3] == "3"
    sources = np.concatenate([batch["_source"] for batch in read(loader, 10)])
    assert (sources == loader.source_names.index("changed")).sum() == 40
    whole = load("mixture").batches.checked()
    assert [step for step, _ in whole.weights] == [0, 100]


def test_imagenet_config_normalizes_both_alike() -> None:
    config = imagenet.get_config()
    for ops in (config.batches.preprocess, config.eval_preprocess):
        assert ops is not None
        assert ops.endswith(f"|{imagenet.NORMALIZE}")
    assert dataclasses.is_dataclass(config)
