# SPDX-License-Identifier: Apache-2.0
"""A filter: the laws hold over what it keeps, and it looks at the records once."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from hypothesis import given
from hypothesis import strategies as st

import tfjax_batches as tjb
from tests.made_datasets import make_numbers, number_example, thing_example
from tests.strategies import layouts, plans
from tfjax_batches.pipeline import filter_scan
from tfjax_batches.pipeline.filter_scan import find_selection, selection_paths
from tfjax_batches.planning.plan import PADDING, BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.selection import Selection, digest_ids
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


def is_kept(number: int) -> bool:
    """Every third number, and the two below 2."""
    return number % 3 == 0 or number < 2


KEEP = tjb.FilterExamples(
    lambda number: (number % 3 == 0) | (number < 2), features=("number",), name="thirds"
)
KEPT = [number for number in range(23) if is_kept(number)]


def source_of(folder: str, split: str = "train") -> Split:
    return open_split(tfds.builder_from_directory(folder), split)


def ids_of(keep: tjb.FilterExamples, folder: str, split: str = "train") -> list[int]:
    source = source_of(folder, split)
    return find_selection(keep, source, open_reader(source)).ids.tolist()


def kept_of(ids: list[int], num_in_split: int) -> Selection:
    found = np.array(ids, np.int64)
    return Selection(name="x", ids=found, num_in_split=num_in_split, digest=digest_ids(found))


@given(plans(max_examples=12), st.data())
def test_laws_hold_over_the_kept_examples(plan: BatchPlan, data: st.DataObject) -> None:
    ids = data.draw(
        st.lists(
            st.integers(0, 60), min_size=plan.num_examples, max_size=plan.num_examples, unique=True
        ).map(sorted)
    )
    layout = data.draw(layouts(plan.global_batch_size))
    kept = plan.keeping(kept_of(ids, 61))
    # Counts and steps are those of a split of that many examples; each row holds another id.
    assert (kept.num_steps, kept.num_examples) == (plan.num_steps, len(ids))
    for step in range(kept.num_steps or 0):
        whole = plan.plan_rows(step, np.arange(plan.global_batch_size))
        expected = [ids[place] if place != PADDING else PADDING for place in whole.examples]
        assert kept.examples_before(step) == plan.examples_before(step)
        for process_index in range(layout.process_count):
            rows = layout.rows(process_index)
            part = kept.plan_rows(step, rows)
            np.testing.assert_array_equal(part.examples, np.array(expected)[rows])
            np.testing.assert_array_equal(part.mask, part.examples != PADDING)
            np.testing.assert_array_equal(part.epochs, whole.epochs[rows])


def test_kept_plans_are_equal_where_name_and_ids_are() -> None:
    plan = BatchPlan(
        num_examples=9,
        global_batch_size=2,
        shuffle=Shuffle.NONE,
        seed=0,
        num_epochs=1,
        remainder=Remainder.PAD,
    )
    assert plan.keeping(kept_of([1, 4], 9)) == plan.keeping(kept_of([1, 4], 9))
    assert plan.keeping(kept_of([1, 4], 9)) != plan.keeping(kept_of([1, 5], 9))
    with pytest.raises(tjb.ConfigError, match=r"2 of 9 examples \(kept by x\) over num_epochs=1"):
        BatchPlan(
            num_examples=2,
            global_batch_size=4,
            shuffle=Shuffle.NONE,
            seed=0,
            num_epochs=1,
            remainder=Remainder.CARRY,
            kept=kept_of([1, 4], 9),
        )


@pytest.mark.parametrize("global_batch_size", [4, 12])
def test_evaluation_holds_each_kept_example_once(
    numbers_folder: str, global_batch_size: int
) -> None:
    loader = tjb.build(
        numbers_folder,
        global_batch_size=global_batch_size,
        num_epochs=1,
        remainder="pad",
        with_ids=True,
        filter=KEEP,
    )
    assert loader.num_examples == len(KEPT) == 9
    assert len(loader) == -(-9 // global_batch_size)
    found = []
    with iter(loader) as batches:
        for batch in batches:
            ids, vectors = tjb.gather_examples(batch, batch["vector"])
            for example_id, vector in zip(ids.tolist(), vectors, strict=True):
                np.testing.assert_array_equal(vector, number_example(example_id)["vector"])
            padding = ~np.asarray(batch["_mask"])
            assert not np.asarray(batch["number"])[padding].any()
            assert (np.asarray(batch["_id"])[padding] == -1).all()
            found += ids.tolist()
        assert batches.stats.examples == 9
    assert sorted(found) == KEPT


@pytest.mark.parametrize("remainder", ["carry", "drop", "pad"])
def test_restore_at_every_step_goes_on_over_the_kept(numbers_folder: str, remainder: str) -> None:
    loader = tjb.build(
        numbers_folder,
        global_batch_size=4,
        num_epochs=3,
        remainder=remainder,
        with_ids=True,
        filter=KEEP,
    )
    with iter(loader) as batches:
        states, ids = [batches.get_state()], []
        for batch in batches:
            ids.append(np.asarray(batch["_id"]).tolist())
            states.append(batches.get_state())
    assert len(ids) == len(loader)
    for step, state in enumerate(states):
        with loader.restore(json.loads(json.dumps(state))) as rest:
            assert [np.asarray(batch["_id"]).tolist() for batch in rest] == ids[step:]


def test_state_of_other_kept_examples_is_refused_by_name(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=4, filter=KEEP)
    with iter(loader) as batches:
        state = batches.get_state()
    assert state["fingerprint"]["keep"] == ["thirds", digest_ids(np.array(KEPT))]
    without = tjb.build(numbers_folder, global_batch_size=4)
    with pytest.raises(
        tjb.StateError, match=r'keep: saved \["thirds", .*, now nothing; give build'
    ):
        without.restore(state)
    # As many examples, but others.
    shifted = tjb.FilterExamples(
        lambda number: (number % 3 == 1) | (number == 2), features=("number",), name="thirds"
    )
    other = tjb.build(numbers_folder, global_batch_size=4, keep=shifted)
    assert other.num_examples == 9
    with pytest.raises(tjb.StateError, match="keep: saved") as caught:
        other.restore(state)
    assert "num_examples" not in str(caught.value)
    assert len(json.dumps(state)) < 2048


def test_complementary_splits_keep_ids_of_the_split(numbers_folder: str) -> None:
    assert ids_of(KEEP, numbers_folder, "train[:10]") == [0, 1, 3, 6, 9]
    assert ids_of(KEEP, numbers_folder, "train[10:]") == [n - 10 for n in KEPT if n >= 10]
    assert ids_of(KEEP, numbers_folder) == KEPT


def test_transforms_see_kept_examples_alone(numbers_folder: str) -> None:
    """Padding too is made of one of them: a transform need not bear what was left out."""

    def refuse_small(example: dict[str, Any]) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_greater(example["number"], np.int64(4))]):
            return {**example, "number": example["number"] * 2}

    keep = tjb.FilterExamples(lambda number: number > 4, features=("number",), name="above 4")
    loader = tjb.build(
        numbers_folder,
        global_batch_size=8,
        num_epochs=1,
        remainder="pad",
        transforms=[tjb.MapExamples(refuse_small)],
        filter=keep,
    )
    with iter(loader) as batches:
        numbers = np.concatenate([np.asarray(b["number"])[np.asarray(b["_mask"])] for b in batches])
    assert sorted(numbers.tolist()) == [2 * number for number in range(5, 23)]


def test_describe_tells_how_many_are_kept(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=4, num_epochs=1, filter=KEEP)
    assert "9 of 23 examples (kept by thirds)" in str(loader.describe())


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
def test_predicate_is_given_the_features_as_tfds_decodes_them(
    things_folder: str,
    features: tuple[str, ...],
    function: Callable[..., Any],
    expected: Callable[[Any], bool],
) -> None:
    wanted = [n for n in range(11) if expected(thing_example(n))]
    assert 0 < len(wanted) < 11
    keep = tjb.FilterExamples(function, features=features, name=f"{features}")
    assert ids_of(keep, things_folder) == wanted


def test_predicate_is_not_given_what_it_does_not_name(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    parse = tf.io.parse_example

    def noted(records: Any, specs: Any) -> Any:
        parsed.extend(specs)
        return parse(records, specs)

    monkeypatch.setattr(tf.io, "parse_example", noted)
    keep = tjb.FilterExamples(lambda even: even, features=("nested/even",), name="even only")
    assert ids_of(keep, numbers_folder) == list(range(0, 23, 2))
    assert set(parsed) == {"nested/even"}


def test_autograph_predicate_may_branch(numbers_folder: str) -> None:
    def small_or_odd(number: tf.Tensor, label: tf.Tensor) -> Any:
        if number < 5:
            return True
        return label == 1

    keep = tjb.FilterExamples(small_or_odd, features=("number", "label"), name="branch")
    assert ids_of(keep, numbers_folder) == [n for n in range(23) if n < 5 or n % 3 == 1]


def test_second_build_reads_no_record(numbers_folder: str, records_read: list[int]) -> None:
    keep = tjb.FilterExamples(lambda number: number > 18, features=("number",), name="read once")
    assert ids_of(keep, numbers_folder) == [19, 20, 21, 22]
    assert set(records_read) == set(range(23))
    records_read.clear()
    loader = tjb.build(numbers_folder, global_batch_size=4, filter=keep)
    assert loader.num_examples == 4
    assert records_read == []


def test_each_record_is_read_once(tmp_path: Path, records_read: list[int]) -> None:
    """Groups of 128, of which the last is filled up."""
    folder = make_numbers(tmp_path, 300, num_files=2)
    assert ids_of(KEEP, folder) == [n for n in range(300) if is_kept(n)]
    counts = np.bincount(records_read)
    assert counts[:299].tolist() == [1] * 299
    assert counts[299] == 384 - 299


def test_replaced_dataset_is_noticed(tmp_path: Path, records_read: list[int]) -> None:
    folder = make_numbers(tmp_path, 23)
    assert ids_of(KEEP, folder) == KEPT
    records_read.clear()
    (file,) = Path(folder).glob("*train*-of-*")
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert ids_of(KEEP, folder) == KEPT
    assert set(records_read) == set(range(23))


def test_other_function_of_one_name_is_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_numbers(tmp_path, 23)
    for limit in (5, 7):
        keep = tjb.FilterExamples(lambda n, k=limit: n < k, features=("number",), name="few")  # type: ignore[misc]
        caplog.clear()
        assert ids_of(keep, folder) == list(range(limit))
        assert ("filter='few' was used" in caplog.text) == (limit == 7)
    assert "by another name" in caplog.text
    caplog.clear()
    assert ids_of(keep, folder) == list(range(7))
    assert caplog.text == ""


@tf.function
def is_less(value: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    return value < limit


@tf.function
def is_less_swapped(limit: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return value < limit


def test_function_that_calls_with_other_parameters_is_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_numbers(tmp_path, 23)
    for called, kept in ((is_less, range(5)), (is_less_swapped, range(6, 23))):
        keep = tjb.FilterExamples(
            lambda n, f=called: f(n, np.int64(5)),  # type: ignore[misc]
            features=("number",),
            name="few",
        )
        assert ids_of(keep, folder) == list(kept)
    assert "filter='few' was used" in caplog.text


def with_ids(data: bytes, ids: list[int]) -> bytes:
    """Return a file of kept ids with other ones, and their digest."""
    header = data[data.index(b"{", data.index(b"\n")) :]
    good, bad = (digest_ids(np.array(each, np.int64)) for each in (KEPT, ids))
    file = io.BytesIO()
    np.save(file, np.array(ids, np.int64))
    return file.getvalue() + header.replace(good.encode(), bad.encode())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-8],
        lambda data: data[:-8] + bytes(8),
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"ids"', b'"isd"'),
        lambda data: data.replace(b'"thirds"', b'"fourth"'),
        lambda data: with_ids(data, [0, 23]),
        lambda data: with_ids(data, [-1, 3]),
        lambda data: with_ids(data, [3, 1]),
        lambda data: with_ids(data, [3, 3]),
    ],
)
def test_damaged_file_is_made_anew(tmp_path: Path, damage: Any, records_read: list[int]) -> None:
    folder = make_numbers(tmp_path, 23)
    assert ids_of(KEEP, folder) == KEPT
    path = Path(selection_paths(KEEP, source_of(folder))[0])
    good = path.read_bytes()
    path.write_bytes(damage(good))
    records_read.clear()
    assert ids_of(KEEP, folder) == KEPT
    assert records_read
    assert path.read_bytes() == good


def test_ids_stay_in_the_file_and_lie_in_the_cache_of_a_read_only_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_numbers(tmp_path, 23)
    source = source_of(folder)
    beside, cached = selection_paths(KEEP, source)
    monkeypatch.setattr(filter_scan, "selection_paths", lambda *_: ["/proc/no/such", cached])
    for _ in range(2):
        found = find_selection(KEEP, source, open_reader(source))
    assert not Path(beside).exists()
    assert Path(cached).exists()
    assert not found.ids.flags.owndata


def test_nothing_kept_is_named(numbers_folder: str) -> None:
    keep = tjb.FilterExamples(lambda number: number > 99, features=("number",), name="none")
    for _ in range(2):
        with pytest.raises(
            tjb.SplitError, match=r"filter='none' keeps none of the 23 of split='tr"
        ):
            tjb.build(numbers_folder, global_batch_size=4, filter=keep)


def one_table() -> tf.lookup.StaticHashTable:
    initializer = tf.lookup.KeyValueTensorInitializer([1, 2], [1, 1], tf.int64, tf.int64)
    return tf.lookup.StaticHashTable(initializer, default_value=0)


def test_predicate_may_use_tables_and_tensors(numbers_folder: str) -> None:
    table, wanted = one_table(), tf.constant([4, 9], tf.int64)
    keep = tjb.FilterExamples(
        lambda number: (table.lookup(number) == 1) | tf.reduce_any(wanted == number),
        features=("number",),
        name="table",
    )
    assert ids_of(keep, numbers_folder) == [1, 2, 4, 9]


def test_predicate_may_use_a_tensor_within_a_branch(
    tmp_path: Path, records_read: list[int]
) -> None:
    folder = make_numbers(tmp_path, 23)
    for limit in (5, 5, 9):
        limits = tf.constant([limit, limit], tf.int64)

        def below(number: tf.Tensor, limits: tf.Tensor = limits) -> tf.Tensor:
            if number > 20:
                return False
            return number < limits[0]

        keep = tjb.FilterExamples(lambda n, f=below: f(n), features=("number",), name="below")  # type: ignore[misc]
        assert ids_of(keep, folder) == list(range(limit))
    assert sorted(records_read) == sorted([*range(23)] * 2)


def test_predicate_may_be_python_of_its_arguments(numbers_folder: str) -> None:
    def is_long(text: bytes) -> Any:
        return np.bool_(len(str(text)) > 1)

    keep = tjb.FilterExamples(
        lambda number: tf.numpy_function(is_long, [number], tf.bool, stateful=False),
        features=("number",),
        name="two digits",
    )
    assert ids_of(keep, numbers_folder) == list(range(10, 23))


def raise_error(number: tf.Tensor) -> tf.Tensor:
    raise RuntimeError("no such thing")


VARIABLE = tf.Variable(5, dtype=tf.int64)


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
        (lambda number: number, r"returns a scalar bool.*'bad' returns int64 of shape \(\)\. Comp"),
        (lambda number: [number > 1], r"'bad' returns \[<tf.Tensor.* tf\.reduce_all"),
        (lambda number: tf.stack([number, number]) > 3, r"returns bool of shape \(2,\)"),
        (lambda number: None, "'bad' returns None"),
        (lambda number: tf.random.uniform([]) < 0.5, "'bad' holds the stateful RandomUniform"),
        (
            lambda number: tf.numpy_function(lambda n: n > 3, [number], tf.bool),
            r"'bad' holds the stateful PyFunc.*stateful=False",
        ),
        (
            lambda number: number > VARIABLE,
            r"ReadVariableOp\. Pass the value of a variable as a con",
        ),
        (
            lambda number: tf.io.read_file("/x") == tf.strings.as_string(number),
            r"'bad' holds the stateful ReadFile\. Read files before",
        ),
        (lambda number: number > np.random.default_rng().integers(2**40), "gives another graph"),
        (raise_error, "'bad' raised RuntimeError when it was traced: .*no such thing.*Mend"),
        (lambda: True, "'bad' raised TypeError when it was traced"),
        (fail_at_9, "'bad' fails on example 9, which is record 1 of .*is nine.* Mend the function"),
        (
            lambda number: 10 // (number - 7) > 0,
            r"'bad' fails on example 7, .*: InvalidArgumentError: Integer division by zero\. Mend",
        ),
        (
            by_python(lambda n: np.int64(n)),
            r"'bad' fails on example \d+, .*is int64, but expects bool\. Mend the function",
        ),
        (
            by_python(lambda n: np.array([n > 3, n > 4])),
            r"'bad' fails on example \d+, .*[Ss]hape.*\. Mend the function",
        ),
        (
            by_python(lambda n: np.bool_(n < 5) if n < 7 else 1 // int(n - n)),
            r"'bad' fails on example \d+, .*ZeroDivisionError: .* by zero.*\. Mend the function",
        ),
    ],
)
def test_bad_predicate_is_named(
    numbers_folder: str, function: Callable[..., Any], text: str
) -> None:
    keep = tjb.FilterExamples(function, features=("number",), name="bad")
    with pytest.raises(tjb.ConfigError, match=f"(?s){text}"):
        tjb.build(numbers_folder, global_batch_size=4, filter=keep)


def test_damaged_record_is_named(tmp_path: Path) -> None:
    folder = make_numbers(tmp_path, 23)
    (file,) = Path(folder).glob("*train*-of-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)
    with pytest.raises(tjb.RecordError, match=r"record \d+ of .*, at byte"):
        tjb.build(folder, global_batch_size=4, filter=KEEP)


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        (
            is_kept,
            r"got is_kept\. Write filter=tjb\.FilterExamples\(is_kept, features=\('label',\)",
        ),
        ("below-5", r"got 'below-5'\. Write filter=tjb\.FilterExamples\(fn, "),
    ],
)
def test_bare_function_is_refused_with_the_way_to_wrap_it(
    numbers_folder: str, keep: Any, text: str
) -> None:
    with pytest.raises(tjb.ConfigError, match=text):
        tjb.build(numbers_folder, global_batch_size=4, filter=keep)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"fn": 3}, "takes a function of TensorFlow; got 3"),
        ({"features": "label"}, r"got 'label'\. Write \('label',\)"),
        ({"features": ()}, r"got \(\)\. Write \('label',\)"),
        ({"features": (1,)}, "a tuple of feature paths"),
        ({"name": ""}, "1 to 100 characters.*got ''"),
        ({"name": "x" * 101}, "1 to 100 characters"),
        ({"name": None}, "got None"),
        ({"name": "two\nlines"}, r"on one line, .*got 'two\\nlines'"),
    ],
)
def test_bad_field_is_named(fields: dict[str, Any], text: str) -> None:
    good = {"fn": is_kept, "features": ("number",), "name": "x"}
    with pytest.raises(tjb.ConfigError, match=text):
        tjb.FilterExamples(**{**good, **fields})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("numbr", r"'numbr' of 'x' is none\. Did you mean 'number'\?"),
        ("nested", r"is none\. Name those below it: \['nested/even', 'nested/image'\]"),
    ],
)
def test_unknown_feature_is_named(numbers_folder: str, path: str, text: str) -> None:
    keep = tjb.FilterExamples(lambda x: x > 1, features=(path,), name="x")
    with pytest.raises(tjb.FeatureError, match=text):
        tjb.build(numbers_folder, global_batch_size=4, filter=keep)
