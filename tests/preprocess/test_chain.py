# SPDX-License-Identifier: Apache-2.0
"""What transforms make of a batch is a function of config and step, whatever reads it."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh

import tfjax_batches as tjb
from tests.made_datasets import LABELS, number_example
from tests.strategies import owners_of_devices
from tfjax_batches.features.paths import Path, flatten, path_text
from tfjax_batches.planning.seeds import derive_seeds

Features = dict[str, Any]


def jitter(example: Features, seed: tf.Tensor) -> Features:
    return {**example, "vector": example["vector"] + tf.random.stateless_uniform([3], seed)}


def fold_label(example: Features) -> Features:
    if example["label"] > 1:  # AutoGraph
        vector = -example["vector"]
    else:
        vector = example["vector"] * 2
    return {**example, "vector": vector}


def crop(example: Features, seed: tf.Tensor) -> Features:
    image = tf.image.stateless_random_crop(example["nested"]["image"], (2, 3, 3), seed)
    return {**example, "nested": {"image": image}}


def scale(batch: Features) -> Features:
    return {**batch, "number": batch["number"] * 3}


def shift_rows(batch: Features, seeds: tf.Tensor) -> Features:
    return {**batch, "vector": batch["vector"] + tf.cast(seeds[:, :1] % 64, tf.float32) / 64}


def mix_pairs(batch: Features, seeds: tf.Tensor) -> Features:
    """Add to each row the other one of its pair, unless that is padding."""
    pairs = tf.reshape(batch["vector"], [-1, 2, 3])
    is_real = tf.reduce_any(tf.reshape(seeds, [-1, 2, 2]) != 0, axis=-1)
    other = tf.where(is_real[:, ::-1, None], pairs[:, ::-1], 0.0)
    return {**batch, "vector": tf.reshape(pairs + 0.5 * other, tf.shape(batch["vector"]))}


def decode_image(example: Features) -> Features:
    image = tf.io.decode_png(example["nested"]["image"], channels=3)
    return {**example, "nested": {"image": tf.ensure_shape(image[::-1], (4, 5, 3))}}


TRANSFORMS = (
    tjb.MapExamples(jitter, random=True),
    tjb.MapExamples(fold_label),
    tjb.MapExamples(crop, random=True),
    tjb.MapBatches(scale),
    tjb.MapBatches(shift_rows, random=True),
    tjb.MapBatches(mix_pairs, random=True, row_multiple=2),
)
DECODE = tjb.MapExamples(decode_image, encoded=("nested/image",))
FEATURES = ("number", "vector", "nested/image", "label")


def build(folder: str, transforms: Any = (), **fields: Any) -> tjb.BatchLoader:
    return tjb.build(
        folder,
        **{"global_batch_size": 8, "features": FEATURES, "with_ids": True, **fields},
        transforms=transforms,
    )


def global_batches(
    loader: tjb.BatchLoader, owners: np.ndarray, steps: range
) -> list[dict[Path, np.ndarray]]:
    """Return the global batches of some steps, read as processes that own these devices would."""
    layout = tjb.BatchLayout.simulate({"data": len(owners)}, "data", 8, owners)
    batches: list[dict[Path, np.ndarray]] = [{} for _ in steps]
    for process_index in range(layout.process_count):
        rows = layout.rows(process_index)
        alone = dataclasses.replace(loader.pipeline, rows={8: rows})
        for batch, part in zip(batches, alone.host_batches(steps.start), strict=False):
            for path, values in part.items():
                whole = batch.setdefault(path, np.zeros((8, *values.shape[1:]), values.dtype))
                whole[rows] = values
    return batches


def assert_equal(
    found: list[dict[Path, np.ndarray]], expected: list[dict[Path, np.ndarray]]
) -> None:
    assert len(found) == len(expected)
    for step, (batch, other) in enumerate(zip(found, expected, strict=True)):
        assert batch.keys() == other.keys()
        for path, values in batch.items():
            np.testing.assert_array_equal(
                values, other[path], err_msg=f"{path_text(path)} of {step}"
            )


@settings(max_examples=10)
@given(
    data=st.data(),
    transforms=st.lists(st.sampled_from(TRANSFORMS), min_size=1, max_size=4),
    decodes=st.booleans(),
    remainder=st.sampled_from(("carry", "pad", "drop")),
    seed=st.integers(0, 2**63 - 1),
)
def test_law_1_batches_are_equal_for_any_processes_groups_threads_and_after_a_restore(
    numbers_folder: str,
    data: st.DataObject,
    transforms: list[Any],
    decodes: bool,
    remainder: str,
    seed: int,
) -> None:
    chain = [DECODE, *transforms] if decodes else transforms
    fields = {"remainder": remainder, "seed": seed}
    steps = range(data.draw(st.integers(0, 2)), 5)  # over the end of the first epoch
    expected = global_batches(build(numbers_folder, chain, **fields), np.zeros(1, int), steps)
    changed = build(
        numbers_folder,
        chain,
        **fields,
        group_size=data.draw(st.integers(2, 9)),
        num_parallel_calls=data.draw(st.integers(1, 4)),
    )
    assert changed.fingerprint == build(numbers_folder, chain, **fields).fingerprint
    assert_equal(global_batches(changed, data.draw(owners_of_devices(4)), steps), expected)
    with iter(changed) as batches:
        for _ in range(steps.start):
            next(batches)
        state = batches.get_state()
    with changed.restore(state) as batches:
        placed = [flatten(next(batches)) for _ in steps]
    for batch, other in zip(placed, expected, strict=True):
        for path, values in batch.items():
            np.testing.assert_array_equal(
                values, other[path].astype(values.dtype), err_msg=path_text(path)
            )


def test_law_5_prefetch_depth_changes_no_value(numbers_folder: str) -> None:
    found = []
    for depth in (0, 1, 3):
        with iter(build(numbers_folder, TRANSFORMS, prefetch_depth=depth)) as batches:
            found.append(
                [{p: np.asarray(v) for p, v in flatten(next(batches)).items()} for _ in "ab"]
            )
    assert_equal(found[1], found[0])
    assert_equal(found[2], found[0])


def test_map_examples_gives_each_example_the_seed_of_its_epoch_and_place(
    numbers_folder: str,
) -> None:
    """The account of it: the function called for one example after the other."""
    chain = [
        tjb.MapBatches(scale),
        tjb.MapExamples(jitter, random=True),
        tjb.MapExamples(fold_label),
    ]
    loader = build(numbers_folder, chain, seed=5)
    for step, batch in zip(range(6), loader.host_batches(), strict=False):
        plan = loader.plan_step(step)
        seeds = derive_seeds(5, plan.epochs, plan.examples, (1,))
        for row, example_id in enumerate(plan.examples.tolist()):
            example = number_example(example_id)
            example = jitter(example, tf.constant(seeds[row, 0]))
            vector = example["vector"] * (-1 if example["label"] > 1 else 2)
            np.testing.assert_array_equal(batch["vector"][row], vector)
            assert batch["number"][row] == 3 * example_id


def test_random_transforms_differ_between_epochs_places_and_seeds_and_repeat_on_rerun(
    numbers_folder: str,
) -> None:
    def noises(transforms: list[Any], **fields: Any) -> dict[tuple[int, int], float]:
        """Return (epoch, example) → what was added to its first value."""
        loader = build(numbers_folder, transforms, remainder="drop", **fields)
        found = {}
        for step, batch in zip(range(4), loader.host_batches(), strict=False):
            plan = loader.plan_step(step)
            for row, key in enumerate(zip(plan.epochs, plan.examples, strict=True)):
                found[key] = float(batch["vector"][row, 0] - key[1])
        return found

    one = [tjb.MapExamples(jitter, random=True)]
    first = noises(one)
    epochs = [{e: v for (epoch, e), v in first.items() if epoch == k} for k in range(2)]
    both = epochs[0].keys() & epochs[1].keys()
    assert len(both) > 10
    assert all(epochs[0][example] != epochs[1][example] for example in both)
    assert noises(one) == first
    later = noises([tjb.MapBatches(scale), *one])
    assert all(first[key] != later[key] for key in first)
    other = noises(one, seed=1)
    assert all(first[key] != other[key] for key in first.keys() & other.keys())


def test_pad_rows_are_zeroed_after_the_chain_and_mixed_into_none(numbers_folder: str) -> None:
    plus_one = tjb.MapBatches(lambda batch: {**batch, "vector": batch["vector"] + 1.0})
    mix = tjb.MapBatches(mix_pairs, random=True, row_multiple=2)
    loader = build(numbers_folder, [plus_one, mix], remainder="pad", num_epochs=1, shuffle="none")
    *_, last = loader.host_batches()
    assert last["_mask"].tolist() == [True] * 7 + [False]
    assert not last["vector"][7].any()
    assert last["vector"][6, 0] == 23.0  # example 22 by itself, its partner being padding
    assert last["vector"][4, 0] == 21.0 + 0.5 * 22.0


@pytest.mark.parametrize("group_size", [2, 3, 4, 5])
def test_rows_together_are_cut_by_no_group(numbers_folder: str, group_size: int) -> None:
    mix = tjb.MapBatches(mix_pairs, random=True, row_multiple=2)
    one_device = tjb.data_sharding(Mesh(np.array(jax.devices()[:1]), ("data",)))
    fields = {"sharding": one_device, "global_batch_size": 6, "shuffle": "none"}
    loaders = [
        build(numbers_folder, [mix], group_size=size, **fields) for size in (None, group_size)
    ]
    whole, cut = (list(zip(range(4), each.host_batches(), strict=False)) for each in loaders)
    assert_equal([flatten(batch) for _, batch in cut], [flatten(batch) for _, batch in whole])
    assert whole[0][1]["vector"][:, 0].tolist() == [0.5, 1.0, 3.5, 4.0, 6.5, 7.0]


def test_build_transforms_reach_element_spec_labels_and_the_device(numbers_folder: str) -> None:
    def reform(example: Features) -> Features:
        return {
            "label": example["label"],
            "class": example["label"],
            "deep": {"picture": tf.cast(example["nested"]["image"], tf.float32) / 255},
            "weight": 0.5,
        }

    loader = build(numbers_folder, [tjb.MapExamples(reform)])
    assert [*map(path_text, flatten(loader.element_spec))] == [
        *("_id", "class", "deep/picture", "label", "weight")
    ]
    assert loader.element_spec["deep"]["picture"].shape == (8, 4, 5, 3)
    assert loader.label_names == {"label": LABELS}
    batch = next(iter(loader))
    assert batch["weight"].tolist() == [0.5] * 8
    for row, example_id in enumerate(batch["_id"].tolist()):
        image = number_example(example_id)["nested"]["image"].astype(np.float32) / 255
        np.testing.assert_array_equal(batch["deep"]["picture"][row], image)


def test_build_one_hot_labels_have_no_names(numbers_folder: str) -> None:
    def one_hot(batch: Features) -> Features:
        return {**batch, "label": tf.one_hot(batch["label"], 3, dtype=tf.int64)}

    assert build(numbers_folder, [tjb.MapBatches(one_hot)]).label_names == {}


def test_transforms_of_any_size_features_become_fixed_dropped_or_stay_on_the_host(
    things_folder: str,
) -> None:
    def reform(example: Features) -> Features:
        assert example["photo"].shape.as_list() == [None, None, 3]
        return {
            "number": example["number"],
            "photo": tf.image.resize(example["photo"], (4, 4)),
            "flipped": example["photo"][:, ::-1],
            "word_count": tf.size(example["words"]),
            "first": example["words"][:1],
            "paths": example["paths"],
            "longest": example["paths"].bounding_shape()[1],
        }

    def count_letters(batch: Features) -> Features:
        assert isinstance(batch["first"], tf.RaggedTensor)
        letters = tf.reduce_sum(tf.strings.length(batch["first"]), axis=1)
        return {**batch, "letters": letters, "thumb": batch["flipped"][:, :1]}

    loader = tjb.build(
        things_folder,
        global_batch_size=4,
        num_epochs=1,
        shuffle="none",
        keep_on_host=("first", "flipped", "paths", "thumb"),
        transforms=[tjb.MapExamples(reform), tjb.MapBatches(count_letters)],
    )
    assert loader.element_spec.keys() == {"number", "photo", "word_count", "longest", "letters"}
    for step, batch in enumerate(loader.host_batches()):
        host = batch["_host"]
        for row in range(4):
            number = step * 4 + row
            assert batch["photo"][row].tolist() == np.full((4, 4, 3), number).tolist()
            assert batch["word_count"][row] == number % 4
            assert batch["longest"][row] == max(0, number % 3 - 1)
            assert batch["letters"][row] == (6 if number % 4 else 0)
            assert host["first"][row].tolist() == [b"word 0"][: number % 4]
            assert host["flipped"][row].shape == (2 + number % 3, 3, 3)
            assert host["thumb"][row].shape == (1, 3, 3)
            assert [p.tolist() for p in host["paths"][row]] == [
                list(range(i)) for i in range(number % 3)
            ]


def test_map_examples_refuses_ragged_rows_that_dense_ones_cannot_hold(
    numbers_folder: str,
) -> None:
    """What a function of groups makes ragged is one array an example, or an error: no zeros."""

    def make_ragged(batch: Features) -> Features:
        outer = tf.RaggedTensor.from_tensor(batch["vector"], ragged_rank=1)
        lengths = tf.reshape(
            tf.stack([batch["number"] // 23 + 1, batch["number"] * 0 + 2], 1), [-1]
        )
        inner = tf.RaggedTensor.from_row_lengths(tf.ones([tf.reduce_sum(lengths)]), lengths)
        return {
            "n": tf.RaggedTensor.from_uniform_row_length(inner, 2),
            "outer": outer.row_lengths(),
        }

    def total(example: Features) -> Features:
        return {"sum": tf.reduce_sum(example["n"]), "shape": tf.shape(example["n"])}

    chain = [tjb.MapBatches(make_ragged), tjb.MapExamples(total)]
    with pytest.raises(tjb.TransformError, match=r"2\. total fails on .*Sizes differ within one"):
        next(build(numbers_folder, chain, shuffle="none").host_batches())


def test_encoded_features_reach_the_transform_as_bytes(numbers_folder: str) -> None:
    loader = build(numbers_folder, [DECODE])
    batch = next(iter(loader))
    for row, example_id in enumerate(batch["_id"].tolist()):
        image = number_example(example_id)["nested"]["image"]
        np.testing.assert_array_equal(batch["nested"]["image"][row], image[::-1])
    untouched = tjb.MapBatches(dict, encoded=("nested/image",))
    with pytest.raises(tjb.FeatureError, match=r"nested/image: a string"):
        build(numbers_folder, [untouched])
    with pytest.raises(tjb.FeatureError, match=r"'label' is int64, stored as"):
        build(numbers_folder, [tjb.MapBatches(dict, encoded=("label",))])


def test_build_device_unfit_feature_names_the_transform_that_made_it(numbers_folder: str) -> None:
    def cut(example: Features) -> Features:
        return {**example, "vector": example["vector"][: example["label"]]}

    with pytest.raises(tjb.FeatureError) as caught:
        build(numbers_folder, [tjb.MapBatches(scale), tjb.MapExamples(cut)])
    assert "  vector: float32 of shape (None,), made by 2. cut\n" in str(caught.value)


def test_build_rows_together_need_whole_blocks_in_groups_and_processes(numbers_folder: str) -> None:
    mix = tjb.MapBatches(mix_pairs, random=True, row_multiple=2)
    with pytest.raises(tjb.ConfigError, match=r"2 rows that 2\. mix_pairs mixes; group_size=1"):
        build(numbers_folder, [tjb.MapBatches(scale), mix], group_size=1)
    with pytest.raises(tjb.LayoutError, match=r"mixes 3 .*global_batch_size=8 is no multiple"):
        build(numbers_folder, [dataclasses.replace(mix, row_multiple=3)])


def test_fingerprint_tells_transforms_only_where_there_are_any(numbers_folder: str) -> None:
    plain = build(numbers_folder)
    assert "transforms" not in plain.fingerprint
    named = build(numbers_folder, [tjb.MapBatches(scale, name="times 3")])
    assert named.fingerprint["transforms"] == ["times 3"]
    with iter(plain) as batches:
        state = batches.get_state()
    with pytest.raises(tjb.StateError, match=r'transforms: .*"times 3".*the same transforms'):
        named.restore(state)
    with iter(named) as batches:
        state = batches.get_state()
    named.restore(state).close()
    other = build(numbers_folder, [tjb.MapBatches(lambda batch: batch, name="times 3")])
    with pytest.raises(tjb.StateError, match=r"graphs: saved .* now .* do the same"):
        other.restore(state)
    # What another release of TensorFlow traced cannot be compared.
    state["fingerprint"]["graphs"] = {"1.0": "0123456789abcdef"}
    other.restore(state).close()
    names = [tjb.MapBatches(scale, name="n" * 200)] * 40
    with iter(build(numbers_folder, names)) as batches:
        assert len(str(batches.get_state())) < 2000
