# SPDX-License-Identifier: Apache-2.0
"""Whole batches from a config, on four devices of one process."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from ml_collections import ConfigDict

import tfjax_batches as tjb
from tests.made_datasets import (
    LABELS,
    Numbers,
    SlowReader,
    make_numbers,
    number_example,
    with_reader,
)
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.label_names import find_label_names
from tfjax_batches.reading.tfrecord.checksum import masked_crcs

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
ChangeBytes = Callable[[bytes], bytes]


def check_rows(batch: Mapping[str, Any]) -> None:
    """Compare each row of a batch with the example that its `_id` names."""
    for row, example_id in enumerate(np.asarray(batch["_id"]).tolist()):
        expected = number_example(example_id)
        for found, value in [
            (batch["number"], expected["number"]),
            (batch["vector"], expected["vector"]),
            (batch["label"], expected["label"]),
            (batch["nested"]["even"], expected["nested"]["even"]),
            (batch["nested"]["image"], expected["nested"]["image"]),
        ]:
            np.testing.assert_array_equal(np.asarray(found)[row], value)


@pytest.mark.parametrize("prefetch_depth", [0, 1, 3])
@pytest.mark.parametrize(
    "sharding",
    [
        None,
        NamedSharding(MESH, PartitionSpec("data")),
        NamedSharding(MESH, PartitionSpec(("model", "data"))),
        NamedSharding(MESH, PartitionSpec()),
        NamedSharding(
            Mesh(np.array(jax.devices())[[0, 2, 1, 3]], ("data",)), PartitionSpec("data")
        ),
    ],
)
def test_iter_batches_hold_the_right_content_and_match_element_spec(
    numbers_folder: str, sharding: NamedSharding | None, prefetch_depth: int
) -> None:
    loader = tjb.build(
        numbers_folder,
        sharding,
        global_batch_size=8,
        num_epochs=2,
        with_ids=True,
        prefetch_depth=prefetch_depth,
    )
    with iter(loader) as batches:
        steps = 0
        for batch in batches:
            check_rows(batch)
            np.testing.assert_array_equal(batch["_id"], loader.plan_step(steps).examples)
            specs = jax.tree.map(
                lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), batch
            )
            assert specs == loader.element_spec
            steps += 1
            assert batches.step == steps
    assert steps == len(loader) == 46 // 8


def test_iter_pad_masks_and_zeroes_padding(numbers_folder: str) -> None:
    loader = tjb.build(
        numbers_folder,
        NamedSharding(MESH, PartitionSpec("data")),
        global_batch_size=10,
        num_epochs=1,
        remainder="pad",
        shuffle="none",
        with_ids=True,
    )
    batches = list(iter(loader))
    assert [int(np.asarray(batch["_mask"]).sum()) for batch in batches] == [10, 10, 3]
    padding = jax.tree.map(lambda x: np.asarray(x)[3:], batches[-1])
    assert padding.pop("_id").tolist() == [-1] * 7
    for leaf in jax.tree.leaves(padding):
        assert not leaf.any()
    assert np.concatenate([batch["_id"] for batch in batches]).tolist() == [*range(23)] + [-1] * 7


@pytest.mark.parametrize("num_examples", [1, 2, 7, 8, 9])
def test_iter_pad_any_size_delivers_each_example_once(tmp_path: Path, num_examples: int) -> None:
    folder = make_numbers(tmp_path, num_examples)
    loader = tjb.build(folder, global_batch_size=8, num_epochs=1, remainder="pad", with_ids=True)
    ids = np.concatenate([batch["_id"] for batch in iter(loader)])
    assert sorted(ids[ids >= 0].tolist()) == list(range(num_examples))
    assert len(loader) == -(-num_examples // 8)


def test_iter_twice_gives_the_same(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8, num_epochs=1, with_ids=True)
    first, second = ([np.asarray(b["_id"]) for b in iter(loader)] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_iter_endless_goes_on_and_has_no_length(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=16, with_ids=True)
    assert loader.num_steps is None
    with pytest.raises(TypeError, match=r"num_epochs is None, which is endless. Set num_epochs"):
        len(loader)
    with iter(loader) as batches:
        for batch in itertools.islice(batches, 10):
            check_rows(batch)


def test_iter_thread_settings_change_no_value(numbers_folder: str) -> None:
    """Groups of one record, of unequal sizes, of whole batches; many threads: the order stays."""
    kinds: list[dict[str, Any]] = [
        {},
        {"group_size": 1, "num_parallel_calls": 8},
        {"group_size": 3},
        {"group_size": 4},
        {"group_size": 8},
        {"group_size": 24},
        {"num_parallel_calls": 1, "threadpool_size": 1},
        {"num_parallel_calls": 8, "threadpool_size": 8, "ram_budget_bytes": 2**24},
    ]
    runs = []
    for kind in kinds:
        loader = tjb.build(numbers_folder, global_batch_size=8, with_ids=True, **kind)
        with iter(loader) as batches:
            runs.append([np.asarray(b["_id"]) for b in itertools.islice(batches, 50)])
    for run in runs[1:]:
        np.testing.assert_array_equal(runs[0], run)


def test_dataset_and_host_batches_start_at_any_step(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8, num_epochs=2, with_ids=True)
    whole = [batch["_id"] for batch in loader.host_batches()]
    for start in range(len(loader) + 1):
        tail = [batch["_id"] for batch in loader.host_batches(start)]
        np.testing.assert_array_equal(tail, whole[start:] or np.empty((0,)))
    batch = next(iter(loader.dataset(2)))
    np.testing.assert_array_equal(batch["_id"], whole[2])
    assert batch["nested"]["image"].shape == (8, 4, 5, 3)
    with pytest.raises(IndexError, match="0 <= start_step <= 5; got 6"):
        loader.dataset(6)


def test_host_batches_are_read_only(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8, features=("vector",))
    batch = next(loader.host_batches())
    with pytest.raises(ValueError, match="read-only"):
        batch["vector"][0] = 0


def test_iter_under_a_transfer_guard(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8, num_epochs=1)
    with jax.transfer_guard("disallow"), iter(loader) as batches:
        assert len(list(batches)) == 2


@pytest.mark.parametrize("depth", [0, 2])
def test_iter_in_any_context_gives_the_dtypes_of_the_build(numbers_folder: str, depth: int) -> None:
    """JAX keeps its contexts by thread: neither that of `next` nor the buffer's own counts."""
    with jax.enable_x64(True):
        loader = tjb.build(numbers_folder, global_batch_size=8, with_ids=True, prefetch_depth=depth)
    assert loader.element_spec["number"].dtype == np.int64
    with iter(loader) as batches, jax.default_device(jax.devices()[2]):
        batch = next(batches)
    assert batch["number"].dtype == np.int64
    assert batch["number"].sharding == loader.element_spec["number"].sharding
    check_rows(batch)


def test_iter_close_while_storage_is_slow_ends_all_reading(numbers_folder: str) -> None:
    """A batch takes 8 × 0.3 s to read; what is under way is waited for, and no more is begun."""
    loader = tjb.build(numbers_folder, global_batch_size=8, num_parallel_calls=1)
    slow = SlowReader(loader.pipeline.readers[0], seconds=0.3)
    batches = iter(with_reader(loader, slow))
    while slow.reads == 0:
        time.sleep(0.01)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("tfjax_batches")]
    reads = slow.reads
    assert reads < 8
    time.sleep(0.5)
    assert slow.reads == reads
    with pytest.raises(tjb.IteratorClosedError):
        next(batches)


def test_iter_several_at_once_each_come_to_their_end(numbers_folder: str) -> None:
    train = tjb.build(numbers_folder, global_batch_size=8, with_ids=True)
    test = tjb.build(
        numbers_folder,
        split="test",
        global_batch_size=8,
        num_epochs=1,
        remainder="pad",
        with_ids=True,
    )
    with iter(train) as batches:
        for _ in range(5):
            check_rows(next(batches))
            with iter(test) as test_batches:
                ids = [np.asarray(batch["_id"]) for batch in test_batches]
            assert sorted(np.concatenate(ids).tolist()) == [-1, *range(23)]


def test_iter_prefetch_bytes_changes_no_value(numbers_folder: str) -> None:
    runs = []
    for prefetch_bytes in (None, 1, 3000):
        loader = tjb.build(
            numbers_folder,
            global_batch_size=8,
            num_epochs=2,
            with_ids=True,
            prefetch_bytes=prefetch_bytes,
            stall_seconds=None,
        )
        runs.append([np.asarray(batch["_id"]) for batch in iter(loader)])
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


@pytest.mark.parametrize("depth", [0, 3])
def test_stats_count_what_was_delivered(numbers_folder: str, depth: int) -> None:
    loader = tjb.build(
        numbers_folder, global_batch_size=8, num_epochs=2, remainder="pad", prefetch_depth=depth
    )
    with iter(loader) as batches:
        for examples in (8, 16, 23, 31):
            next(batches)
            assert batches.stats.examples == examples
        stats = batches.stats
    assert stats.steps == batches.step == 4
    assert stats.read_seconds > 0
    assert stats.place_seconds > 0
    assert 0 < stats.wait_seconds <= stats.seconds
    assert str(stats).startswith("4 steps, 31 examples in ")


def test_label_names_are_those_of_tfds(numbers_folder: str, things_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8)
    assert loader.label_names == {"label": LABELS}
    assert tjb.build(numbers_folder, global_batch_size=8, features=("number",)).label_names == {}
    things = tjb.build(
        things_folder,
        global_batch_size=8,
        features=("number", "objects"),
        keep_on_host=("objects/bbox",),
        pad_to={"objects/label": 3},
    )
    assert things.label_names == {"objects/label": LABELS}


def test_label_names_of_renumbered_labels_are_unknown(numbers_folder: str) -> None:
    renumber = tjb.MapBatches(lambda batch: {"label": 2 - batch["label"], "old": batch["label"]})
    loader = tjb.build(numbers_folder, global_batch_size=8, transforms=[renumber])
    assert loader.label_names == {}


def test_find_label_names_of_every_kind_of_label() -> None:
    f = tfds.features
    features = f.FeaturesDict(
        {
            "counted": f.ClassLabel(num_classes=2),
            "unknown": f.ClassLabel(),
            "several": f.Sequence(f.Sequence(f.ClassLabel(names=["a", "b"])), length=2),
            "nested": {"label": f.ClassLabel(names=["c"]), "x": np.int64},
        }
    )
    paths = [("counted",), ("nested", "label"), ("nested", "x"), ("several",), ("unknown",)]
    assert find_label_names(features, paths) == {
        "counted": ("0", "1"),
        "nested/label": ("c",),
        "several": ("a", "b"),
    }


def test_feature_shardings_place_each_feature_by_its_spec(numbers_folder: str) -> None:
    own = NamedSharding(MESH, PartitionSpec("model", "data"))
    loader = tjb.build(
        numbers_folder,
        NamedSharding(MESH, PartitionSpec("data")),
        feature_shardings={"nested/image": own},
        global_batch_size=8,
        with_ids=True,
    )
    with iter(loader) as batches:
        batch = next(batches)
    assert batch["nested"]["image"].sharding == own
    check_rows(batch)


def test_iter_on_an_explicit_mesh_gives_arrays_whose_types_have_their_spec(
    numbers_folder: str,
) -> None:
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    loader = tjb.build(
        numbers_folder,
        NamedSharding(mesh, PartitionSpec("data")),
        feature_shardings={"nested/image": NamedSharding(mesh, PartitionSpec("model", "data"))},
        global_batch_size=8,
        with_ids=True,
    )
    with iter(loader) as batches:
        batch = next(batches)
    check_rows(batch)
    assert jax.typeof(batch["number"]).sharding.spec == PartitionSpec("data")
    assert jax.typeof(batch["nested"]["image"]).sharding.spec[:2] == ("model", "data")
    assert jax.jit(lambda b: b["number"].sum())(batch) == np.asarray(batch["number"]).sum()


def test_digits_batches_equal_tfds_load(digits_data_dir: str) -> None:
    expected = {
        split: list(tfds.load("digits", split=split, data_dir=digits_data_dir).as_numpy_iterator())
        for split in ("train", "test")
    }
    for split, examples in expected.items():
        loader = tjb.build(
            "digits",
            data_dir=digits_data_dir,
            split=split,
            global_batch_size=64,
            num_epochs=1,
            remainder="pad",
            with_ids=True,
        )
        assert loader.num_examples == len(examples)
        seen = 0
        for batch in iter(loader):
            ids, images, labels = (np.asarray(batch[key]) for key in ("_id", "image", "label"))
            for row in np.flatnonzero(np.asarray(batch["_mask"])):
                np.testing.assert_array_equal(images[row], examples[ids[row]]["image"])
                assert labels[row] == examples[ids[row]]["label"]
                seen += 1
        assert seen == len(examples)


def test_build_prepares_only_when_asked(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"data_dir": str(tmp_path), "global_batch_size": 8}
    with pytest.raises(tjb.DatasetNotFoundError, match=r"digits/1.0.0 is not: looked in"):
        tjb.build("digits", **fields)
    assert tjb.build("digits", **fields, prepare=True).num_examples > 1000
    assert tjb.build("digits", **fields).num_examples > 1000


def damage_last_record(folder: Path, change: ChangeBytes) -> Path:
    """Change the bytes of the only train file, whose last record is number 15."""
    (file,) = folder.glob("*-train.tfrecord-*")
    file.write_bytes(change(file.read_bytes()))
    return file


def flip_a_byte(data: bytes) -> bytes:
    return data[:-10] + bytes([data[-10] ^ 1]) + data[-9:]


def put_record(content: bytes) -> ChangeBytes:
    """Return what replaces the last record by `content`, with right checksums."""

    def change(data: bytes) -> bytes:
        start = 0
        for _ in range(15):
            start += int.from_bytes(data[start : start + 8], "little") + 16
        length = len(content).to_bytes(8, "little")
        sums: list[bytes] = [crc.tobytes() for crc in masked_crcs([length, content])]
        return data[:start] + length + sums[0] + content + sums[1]

    return change


def example_with_broken_image() -> bytes:
    features = Numbers(num_examples=1, data_dir="unused").info.features
    serialized = features.serialize_example(number_example(0))
    example = tf.train.Example.FromString(serialized)
    example.features.feature["nested/image"].bytes_list.value[0] = b"no image"
    return bytes(example.SerializeToString())


@pytest.mark.parametrize("prefetch_depth", [0, 2])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (flip_a_byte, "checksum. Restore the file"),
        (put_record(b"no example"), "is not: .*Could not parse example"),
        (put_record(b"\xb6 no text"), "is not: .*parse"),
        (put_record(b""), "is not: .*Feature: label .*required but could not be found"),
        (put_record(example_with_broken_image()), "is not: .*no image|is not: .*image"),
    ],
    ids=["damaged", "no example", "no text", "no features", "no image"],
)
@pytest.mark.parametrize("group_size", [4, 16], ids=["half a step", "two steps"])
def test_iter_bad_record_is_named_at_its_step(
    tmp_path: Path, prefetch_depth: int, change: ChangeBytes, text: str, group_size: int
) -> None:
    folder = Path(make_numbers(tmp_path, 16))
    file = damage_last_record(folder, change)
    loader = tjb.build(
        str(folder),
        global_batch_size=8,
        num_epochs=1,
        shuffle="none",
        prefetch_depth=prefetch_depth,
        group_size=group_size,
    )
    with iter(loader) as batches:
        next(batches)
        for _ in range(2):
            with pytest.raises(tjb.RecordError, match=text) as caught:
                next(batches)
            message = str(caught.value)
            assert f"record 15 of {file}, at byte " in message
            assert "(Step 1 on process 0.)" in message


def test_iter_file_that_goes_after_build_is_named(tmp_path: Path) -> None:
    folder = Path(make_numbers(tmp_path, 16))
    loader = tjb.build(str(folder), global_batch_size=8)
    (file,) = folder.glob("*-train.tfrecord-*")
    file.unlink()
    with pytest.raises(tjb.RecordError, match=rf"{file} is not: .*Restore the file"):
        iter(loader)


def test_host_batches_other_failure_keeps_its_error_and_tells_the_step(
    numbers_folder: str,
) -> None:
    class Failing:
        """Fails to read some examples."""

        def __init__(self, reader: RecordReader) -> None:
            self._reader = reader
            self.open = reader.open
            self.mean_record_bytes = reader.mean_record_bytes

        def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
            if len(examples) > 1 and (examples >= 12).any():
                raise ValueError("too many")
            return self._reader.read(examples)

    loader = tjb.build(numbers_folder, global_batch_size=4, shuffle="none")
    batches = with_reader(loader, Failing(loader.pipeline.readers[0])).host_batches()
    for _ in range(3):
        next(batches)
    with pytest.raises(ValueError, match="too many") as caught:
        next(batches)
    assert caught.value.__notes__ == ["This is step 3 of the loader."]


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"global_batch_size": 6}, tjb.LayoutError, "nearest valid global_batch_size is 4 or 8"),
        ({"split": "train[:0]"}, tjb.SplitError, "resolves to none"),
        ({"split": "trian"}, tjb.SplitError, "Did you mean 'train'?"),
        ({"features": ("lable",)}, tjb.FeatureError, "Did you mean 'label'?"),
        ({"batch_size": 4}, tjb.ConfigError, "'batch_size': Did you mean 'global_batch_size'?"),
        ({"transforms": [print]}, tjb.ConfigError, "got [<built-in function print>]"),
        (
            {"feature_shardings": {"imgae": NamedSharding(MESH, PartitionSpec())}},
            tjb.LayoutError,
            "feature_shardings['imgae']",
        ),
        ({"remainder": "drop", "global_batch_size": 64}, tjb.ConfigError, "use remainder='pad'"),
    ],
)
def test_build_bad_input_is_one_clear_error_before_any_read(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    folder = Path(make_numbers(tmp_path, 23))
    for file in folder.glob("*.tfrecord*"):
        file.unlink()  # whoever reads a file now fails in another way
    with pytest.raises(error) as caught:
        tjb.build(str(folder), **{"global_batch_size": 8, **fields})
    assert text in str(caught.value)
    assert isinstance(caught.value, tjb.BatchesError)


def test_build_takes_fields_as_a_dict_or_all_as_keywords(numbers_folder: str) -> None:
    fields: dict[str, Any] = {"dataset": numbers_folder, "global_batch_size": 8}
    loaders = [tjb.build(**fields), tjb.build(fields, None), tjb.build(ConfigDict(fields))]
    assert [loader.config for loader in loaders] == [tjb.BatchConfig(**fields).checked()] * 3


def test_plan_step_and_dataset_take_only_steps_that_exist(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8)
    with pytest.raises(IndexError, match="A step lies in 0 <= step"):
        loader.plan_step(2**62)
    for call in (loader.plan_step, loader.dataset):
        with pytest.raises(TypeError):
            call(1.5)  # type: ignore[arg-type]


def test_build_logs_one_summary_and_warns_of_what_is_left_out(
    numbers_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="absl"):
        tjb.build(numbers_folder, global_batch_size=8, num_epochs=1, remainder="drop")
    lines = [record.getMessage() for record in caplog.records]
    assert sum("8 rows on mesh data=4" in line for line in lines) == 1
    assert any("7 examples are left out of each epoch of 23" in line for line in lines)


def test_build_warns_of_a_batch_that_no_epoch_fills(
    numbers_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="absl"):
        tjb.build(numbers_folder, global_batch_size=32)
        (line,) = [record.getMessage() for record in caplog.records]
        for text in ("steps_per_epoch is 0", "has 32 rows", "the 23 examples", "at most 23 fits"):
            assert text in line
        caplog.clear()
        for fix in ({"global_batch_size": 20}, {"global_batch_size": 32, "remainder": "pad"}):
            assert tjb.build(numbers_folder, None, **fix).steps_per_epoch == 1
    assert not caplog.records


def add_noise(example: dict[str, Any], seed: tf.Tensor) -> dict[str, Any]:
    return {"noisy": example["vector"] + tf.random.stateless_uniform([], seed)}


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, 1),
        ({"num_epochs": 2}, 0),
        ({"shuffle": "none"}, 0),
        ({"remainder": "pad"}, 0),
        (
            {
                "shuffle": "none",
                "remainder": "pad",
                "transforms": [tjb.MapExamples(add_noise, random=True)],
            },
            1,
        ),
    ],
    ids=["shuffled", "two epochs", "in order", "padded", "random"],
)
def test_iter_again_of_one_random_epoch_says_once_how_epochs_go_on(
    numbers_folder: str, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], lines: int
) -> None:
    loader = tjb.build(numbers_folder, **{"global_batch_size": 8, "num_epochs": 1, **fields})
    with caplog.at_level(logging.WARNING, logger="absl"):
        caplog.clear()
        iter(loader).close()
        assert not caplog.records
        for _ in range(3):
            iter(loader).close()
    assert len(caplog.records) == lines
    assert caplog.text.count("set num_epochs=3 and iterate once") == lines


@pytest.mark.parametrize("shuffle", ["none", "global"])
def test_iter_complementary_splits_stay_disjoint_over_epochs(
    numbers_folder: str, shuffle: str
) -> None:
    """23 examples, cut at 67 %: nobody sees the other's, whichever the remainder policy."""
    seen = {}
    for split in ("train[:67%]", "train[67%:]"):
        for remainder in ("carry", "pad"):
            loader = tjb.build(
                numbers_folder,
                split=split,
                global_batch_size=4,
                num_epochs=3,
                shuffle=shuffle,
                remainder=remainder,
                with_ids=True,
            )
            numbers = [
                np.asarray(batch["number"])[np.asarray(batch["_id"]) >= 0] for batch in iter(loader)
            ]
            seen[split, remainder] = set(np.concatenate(numbers).tolist())
            assert len(seen[split, remainder]) == loader.num_examples
    for remainder in ("carry", "pad"):
        train, evaluation = seen["train[:67%]", remainder], seen["train[67%:]", remainder]
        assert train.isdisjoint(evaluation)
        assert train | evaluation == set(range(23))
