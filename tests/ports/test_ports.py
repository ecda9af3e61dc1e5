# SPDX-License-Identifier: Apache-2.0
"""Each port runs on made data under the name of its dataset, and learns."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds

from tests.ports import big_vision_transfer, imagenet_example, mnist_tutorial
from tests.ports.made_datasets import make_dataset


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS folder that holds the datasets of all ports."""
    folder = str(tmp_path_factory.mktemp("ports"))
    make_dataset("mnist", folder, train=300, test=70)
    make_dataset("imagenet2012", folder, train=100, validation=30)
    make_dataset("oxford_iiit_pet", folder, train=150, test=74)
    return folder


def test_mnist_tutorial_learns_and_tests_each_image_once(data_dir: str) -> None:
    params, history = mnist_tutorial.main(data_dir, train_steps=25, eval_every=10)
    first, *_, last = [metrics.loss for metrics in history]
    assert len(history) == 4
    assert first == pytest.approx(np.log(10))
    assert last < 0.5 * first
    # The same by TFDS and NumPy.
    test = tfds.as_numpy(tfds.load("mnist", split="test", data_dir=data_dir, batch_size=-1))
    weight, bias = (np.asarray(params[name]) for name in ("weight", "bias"))
    logits = test["image"].reshape(70, -1) / 255 @ weight + bias
    labels = test["label"]
    losses = np.log(np.exp(logits).sum(-1)) - logits[np.arange(70), labels]
    assert last == pytest.approx(losses.mean(), rel=1e-5)
    assert history[-1].accuracy == np.mean(logits.argmax(-1) == labels) > 0.8


IMAGENET = imagenet_example.Config(
    image_size=16, batch_size=16, num_epochs=3, warmup_epochs=1, checkpoint_every=4
)


@pytest.fixture(scope="module")
def whole_run(data_dir: str, tmp_path_factory: pytest.TempPathFactory) -> imagenet_example.Result:
    config = dataclasses.replace(IMAGENET, data_dir=data_dir)
    return imagenet_example.train_and_evaluate(config, str(tmp_path_factory.mktemp("whole")))


def test_imagenet_example_learns(whole_run: imagenet_example.Result) -> None:
    assert whole_run.steps == range(3 * 100 // 16)
    assert np.mean(whole_run.losses[-3:]) < 1 < np.mean(whole_run.losses[:3])
    assert len(whole_run.accuracies) == 3
    assert whole_run.accuracies[-1] > 0.9


def test_imagenet_example_resumes_within_an_epoch(
    whole_run: imagenet_example.Result, data_dir: str, tmp_path: Path
) -> None:
    config = dataclasses.replace(IMAGENET, data_dir=data_dir)
    before = imagenet_example.train_and_evaluate(config, str(tmp_path), stop_at=9)
    after = imagenet_example.train_and_evaluate(config, str(tmp_path))
    assert (before.steps, after.steps) == (range(9), range(8, 18))
    assert before.losses[:8] + after.losses == whole_run.losses
    jax.tree.map(np.testing.assert_array_equal, after.params, whole_run.params)


def test_imagenet_example_half_precision_has_bfloat16_images(data_dir: str) -> None:
    config = dataclasses.replace(IMAGENET, data_dir=data_dir, half_precision=True)
    for train, rows in ((True, 100), (False, 30)):
        loader = imagenet_example.create_split(config, train)
        with iter(loader) as batches:
            image = next(batches)["image"]
        assert (image.dtype, image.shape) == (np.dtype("bfloat16"), (16, 16, 16, 3))
        assert len(image.sharding.device_set) == 4
        assert loader.num_examples == rows


def test_big_vision_transfer_learns_and_sees_each_example_once(data_dir: str) -> None:
    losses, found = big_vision_transfer.main(transfer_command(data_dir, "total_steps=10"))
    assert len(losses) == 10
    assert losses[0] == pytest.approx(np.log(37), rel=1e-3)
    assert losses[-1] < 0.1 * losses[0]
    assert {name: found[name]["seen"] for name in found} == {"val": 15, "test": 74}
    assert all(found[name]["prec@1"] > 0.9 for name in found)


def test_big_vision_transfer_splits_share_no_example(data_dir: str) -> None:
    config = big_vision_transfer.parse_config(transfer_command(data_dir))
    trained = big_vision_transfer.build_train_loader(config)
    evaluated = big_vision_transfer.build_eval_loader(config, "val")
    assert (trained.num_examples, evaluated.num_examples) == (135, 15)
    spec = trained.element_spec
    assert {name: spec[name].shape for name in spec} == {
        "image": (32, 128, 128, 3),
        "labels": (32, 37),
    }


def test_big_vision_transfer_mixup_mixes_images_and_labels(data_dir: str) -> None:
    config = big_vision_transfer.parse_config(transfer_command(data_dir, "mixup.p=0.5"))
    with iter(big_vision_transfer.build_train_loader(config)) as batches:
        labels = np.asarray(next(batches)["labels"])
    np.testing.assert_allclose(labels.sum(-1), 1, atol=1e-6)
    assert (labels.max(-1) < 0.99).any()


def transfer_command(data_dir: str, *overrides: str) -> list[str]:
    made = (f"input.data_dir={data_dir}", "input.global_batch_size=32")
    return ["program", *(f"--config.{override}" for override in (*made, *overrides))]
