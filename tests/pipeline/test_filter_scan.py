# SPDX-License-Identifier: Apache-2.0
"""A filter is evaluated once on each example, as TFDS decodes it; later runs use the saved ids."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import make_numbers, thing_example
from tfjax_batches.pipeline import filter_scan
from tfjax_batches.pipeline.filter_scan import find_selection, selection_paths
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.split import Split, open_split
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


@pytest.fixture(autouse=True)
def records_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Examples that are read; the user's cache folder is one of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read = TFRecordReader.read
    examples: list[int] = []

    def counted(self: TFRecordReader, wanted: np.ndarray) -> np.ndarray:
        examples.extend(wanted.tolist())
        return read(self, wanted)

    monkeypatch.setattr(TFRecordReader, "read", counted)
    return examples


def is_selected(number: int) -> bool:
    """Every third number, and the two below 2."""
    return number % 3 == 0 or number < 2


THIRDS = tjb.FilterExamples(
    lambda number: (number % 3 == 0) | (number < 2), features=("number",), name="thirds"
)
SELECTED = [number for number in range(23) if is_selected(number)]


def split_of(folder: str, expression: str = "train") -> Split:
    return open_split(tfds.builder_from_directory(folder), expression)


def ids_of(filter: tjb.FilterExamples, folder: str, expression: str = "train") -> list[int]:
    split = split_of(folder, expression)
    ids: list[int] = find_selection(filter, split, open_reader(split)).ids.tolist()
    return ids


def test_find_selection_ids_count_from_the_start_of_the_split(numbers_folder: str) -> None:
    assert ids_of(THIRDS, numbers_folder, "train[:10]") == [0, 1, 3, 6, 9]
    assert ids_of(THIRDS, numbers_folder, "train[10:]") == [n - 10 for n in SELECTED if n >= 10]
    assert ids_of(THIRDS, numbers_folder) == SELECTED


@pytest.mark.parametrize(
    ("features", "function", "expected"),
    [
        (
            ("text",),
            lambda text: tf.strings.length(text) > 20,
            lambda e: len(e["text"].encode()) > 20,
        ),
        (
            ("words",),
            lambda words: tf.reduce_any(words == "word 2"),
            lambda e: "word 2" in e["words"],
        ),
        (
            ("objects/bbox", "objects/label"),
            lambda bbox, label: tf.reduce_any((label == 1) & (bbox[:, 1] > 0)),
            lambda e: any(o["label"] == 1 and o["bbox"].xmin > 0 for o in e["objects"]),
        ),
        (
            ("paths",),
            lambda paths: tf.reduce_sum(paths.row_lengths()) > 0,
            lambda e: any(e["paths"]),
        ),
        (("photo",), lambda photo: tf.shape(photo)[0] == 3, lambda e: e["photo"].shape[0] == 3),
        (
            ("big", "number"),
            lambda big, number: big - number * 2 > 2**40 - 4,
            lambda e: e["number"] < 4,
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_filter_is_given_the_features_as_tfds_decodes_them(
    things_folder: str,
    features: tuple[str, ...],
    function: Callable[..., Any],
    expected: Callable[[Any], bool],
) -> None:
    wanted = [n for n in range(11) if expected(thing_example(n))]
    assert 0 < len(wanted) < 11
    chosen = tjb.FilterExamples(function, features=features, name=f"{features}")
    assert ids_of(chosen, things_folder) == wanted


def test_filter_parses_no_feature_that_it_does_not_name(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    parse = tf.io.parse_example

    def noted(records: Any, specs: Any) -> Any:
        parsed.extend(specs)
        return parse(records, specs)

    monkeypatch.setattr(tf.io, "parse_example", noted)
    chosen = tjb.FilterExamples(lambda even: even, features=("nested/even",), name="even only")
    assert ids_of(chosen, numbers_folder) == list(range(0, 23, 2))
    assert set(parsed) == {"nested/even"}


def test_second_build_reads_no_record(numbers_folder: str, records_read: list[int]) -> None:
    chosen = tjb.FilterExamples(lambda number: number > 18, features=("number",), name="read once")
    assert ids_of(chosen, numbers_folder) == [19, 20, 21, 22]
    assert set(records_read) == set(range(23))
    records_read.clear()
    loader = tjb.build(numbers_folder, global_batch_size=4, filter=chosen)
    assert loader.num_examples == 4
    assert records_read == []


def test_each_record_is_read_once(
    tmp_path: Path, records_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of 16; the last one is filled up."""
    monkeypatch.setattr(filter_scan, "_GROUP_ROWS", 16)
    folder = make_numbers(tmp_path, 300, num_files=2)
    assert ids_of(THIRDS, folder) == [n for n in range(300) if is_selected(n)]
    counts = np.bincount(records_read)
    assert counts[:299].tolist() == [1] * 299
    assert counts[299] == 304 - 299


def test_replaced_dataset_is_noticed(tmp_path: Path, records_read: list[int]) -> None:
    folder = make_numbers(tmp_path, 23)
    assert ids_of(THIRDS, folder) == SELECTED
    records_read.clear()
    (file,) = Path(folder).glob("*train*-of-*")
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert ids_of(THIRDS, folder) == SELECTED
    assert set(records_read) == set(range(23))


def test_another_function_of_the_same_name_is_a_new_scan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_numbers(tmp_path, 23)
    for limit in (5, 7):
        chosen = tjb.FilterExamples(lambda n, k=limit: n < k, features=("number",), name="few")
        caplog.clear()
        assert ids_of(chosen, folder) == list(range(limit))
        assert ("filter 'few' was used" in caplog.text) == (limit == 7)
    assert "another name" in caplog.text
    caplog.clear()
    assert ids_of(chosen, folder) == list(range(7))
    assert caplog.text == ""


def is_less(value: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    return value < limit


def is_less_swapped(limit: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return value < limit


def test_function_that_swaps_arguments_is_a_new_scan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_numbers(tmp_path, 23)
    for function, selected in ((is_less, range(5)), (is_less_swapped, range(6, 23))):
        called = tf.function(function)
        chosen = tjb.FilterExamples(
            lambda n, f=called: f(n, np.int64(5)),
            features=("number",),
            name="few",
        )
        assert ids_of(chosen, folder) == list(selected)
    assert "filter 'few' was used" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-8],
        lambda data: data[:-8] + bytes(8),
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"ids"', b'"isd"'),
        lambda data: data.replace(b'"thirds"', b'"fourth"'),
    ],
)
def test_damaged_file_is_written_again(
    tmp_path: Path, damage: Any, records_read: list[int]
) -> None:
    folder = make_numbers(tmp_path, 23)
    assert ids_of(THIRDS, folder) == SELECTED
    path = Path(selection_paths(THIRDS, split_of(folder))[0])
    good = path.read_bytes()
    path.write_bytes(damage(good))
    records_read.clear()
    assert ids_of(THIRDS, folder) == SELECTED
    assert records_read
    assert path.read_bytes() == good


def test_ids_are_mapped_from_the_cache_folder_for_a_read_only_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_numbers(tmp_path, 23)
    split = split_of(folder)
    beside, cached = selection_paths(THIRDS, split)
    monkeypatch.setattr(filter_scan, "selection_paths", lambda *_: ["/proc/no/such", cached])
    for _ in range(2):
        found = find_selection(THIRDS, split, open_reader(split))
    assert not Path(beside).exists()
    assert Path(cached).exists()
    assert not found.ids.flags.owndata


def test_find_selection_of_nothing_is_an_error(numbers_folder: str) -> None:
    chosen = tjb.FilterExamples(lambda number: number > 99, features=("number",), name="none")
    for _ in range(2):
        with pytest.raises(
            tjb.SplitError, match=r"filter 'none' selects none of the 23 of split='tr"
        ):
            tjb.build(numbers_folder, global_batch_size=4, filter=chosen)


def test_tensors_within_branches_are_part_of_the_function(
    tmp_path: Path, records_read: list[int]
) -> None:
    folder = make_numbers(tmp_path, 23)
    for limit in (5, 5, 9):
        limits = tf.constant([limit, limit], tf.int64)

        def below(number: tf.Tensor, limits: tf.Tensor = limits) -> tf.Tensor:
            if number > 20:
                return False
            return number < limits[0]

        chosen = tjb.FilterExamples(lambda n, f=below: f(n), features=("number",), name="below")
        assert ids_of(chosen, folder) == list(range(limit))
    assert sorted(records_read) == sorted([*range(23)] * 2)


def by_python(function: Callable[[Any], Any]) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda number: tf.numpy_function(function, [number], tf.bool, stateful=False)


def fail_at_9(number: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies(
        [tf.debugging.assert_none_equal(number, np.int64(9), message="is nine")]
    ):
        return number > 3


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (fail_at_9, "fails on example 9, which is record 1 of .*is nine.*Fix the function"),
        (lambda number: 10 // (number - 7) > 0, r"fails on example 7, .*division by zero.*\. Fix"),
        (by_python(lambda n: np.int64(n)), r"fails on example \d+, .*is int64, but expects bool"),
        (
            by_python(lambda n: np.array([n > 3, n > 4])),
            r"fails on example \d+, .*[Ss]hape.*\. Fix the function",
        ),
        (
            by_python(lambda n: np.bool_(n < 5) if n < 7 else 1 // int(n - n)),
            r"fails on example \d+, .*ZeroDivisionError: .* by zero.*\. Fix the function",
        ),
    ],
)
def test_find_selection_filter_that_fails_on_an_example_is_an_error_with_its_record(
    numbers_folder: str, function: Callable[..., Any], text: str
) -> None:
    bad = tjb.FilterExamples(function, features=("number",), name="bad")
    with pytest.raises(tjb.ConfigError, match=f"(?s)'bad' {text}"):
        ids_of(bad, numbers_folder)


def test_find_selection_damaged_record_is_an_error(tmp_path: Path) -> None:
    folder = make_numbers(tmp_path, 23)
    (file,) = Path(folder).glob("*train*-of-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)
    with pytest.raises(tjb.RecordError, match=r"record \d+ of .*, at byte"):
        tjb.build(folder, global_batch_size=4, filter=THIRDS)


def test_find_selection_unknown_feature_is_an_error(numbers_folder: str) -> None:
    chosen = tjb.FilterExamples(lambda x: x > 1, features=("numbr",), name="x")
    with pytest.raises(tjb.FeatureError, match=r"numbers.*'numbr'.*Did you mean 'number'"):
        ids_of(chosen, numbers_folder)
