# SPDX-License-Identifier: Apache-2.0
"""Runs of several datasets: rows, errors before reading, counts, descriptions and restores."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import ml_collections
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import Numbers, number_example
from tests.pipeline.test_single_steps import assert_steps_are_those_of_the_dataset
from tfjax_batches.loading.state import make_state

ROWS = 8
FIELDS = ("number", "vector")
CAST = "cast('int32', key='number')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`Numbers`: 0 to 22 in `train`, from 10,000 on in `test`."""
    builder = Numbers(data_dir=tmp_path_factory.mktemp("mixture"))
    builder.download_and_prepare()
    return str(builder.data_path)


def mixture(folder: str, **fields: Any) -> tjb.MixtureConfig:
    """Two splits of one dataset, of 23 and of 6 examples."""
    sources = {
        "big": tjb.Source(dataset=folder, features=FIELDS),
        "small": tjb.Source(dataset=folder, split="test[:6]", features=FIELDS),
    }
    given: dict[str, Any] = {"sources": sources, "weights": {"big": 3, "small": 1}}
    given |= {"global_batch_size": ROWS, "with_ids": True, "with_sources": True}
    return tjb.MixtureConfig(**{**given, **fields})


def replaced(config: tjb.MixtureConfig, name: str, **fields: Any) -> tjb.MixtureConfig:
    source = dataclasses.replace(config.sources[name], **fields)
    return dataclasses.replace(config, sources={**config.sources, name: source})


def host_rows(loader: tjb.BatchLoader, steps: int) -> list[dict[str, Any]]:
    with loader.host_batches() as batches:
        return [next(batches) for _ in range(steps)]


def test_build_mixture_rows_are_those_of_the_plan(folder: str) -> None:
    loader = tjb.build(mixture(folder))
    assert loader.source_names == ("big", "small")
    assert loader.num_examples == 29
    with pytest.raises(TypeError, match=r"no source is ever used up\. Set max_epochs of a Source"):
        len(loader)
    with iter(loader) as batches:
        for step in range(12):
            batch = jax.device_get(next(batches))
            plan = loader.plan_step(step)
            assert batch["_source"].tolist() == plan.sources.tolist()
            assert batch["_source"].dtype == np.int32
            assert batch["_id"].tolist() == plan.examples.tolist()
            for row, (source, index) in enumerate(zip(plan.sources, plan.examples, strict=True)):
                expected = number_example(int(index) + 10_000 * int(source))
                assert batch["number"][row] == expected["number"]
                np.testing.assert_array_equal(batch["vector"][row], expected["vector"])


def test_build_each_source_has_its_own_ops_and_transforms_come_last(folder: str) -> None:
    config = replaced(mixture(folder), "small", preprocess=f"{CAST}|drop('vector')")
    config = replaced(config, "big", features=("number",), preprocess=CAST)

    def doubled(example: dict[str, Any], seed: tf.Tensor) -> dict[str, Any]:
        noise = tf.random.stateless_uniform([], seed)
        return {**example, "twice": 2 * example["number"], "noise": noise}

    loader = tjb.build(config, transforms=[tjb.MapExamples(doubled, random=True)])
    assert sorted(loader.element_spec) == ["_id", "_source", "noise", "number", "twice"]
    assert loader.transform_names == (
        *(f"big: 1. {CAST}", "big: 2. doubled"),
        *(f"small: 1. {CAST}", "small: 2. drop('vector')", "small: 3. doubled"),
    )
    rows = host_rows(loader, 6)
    for batch in rows:
        assert (batch["twice"] == 2 * batch["number"]).all()
    noise = np.concatenate([batch["noise"] for batch in rows])
    assert len(np.unique(noise)) == len(noise)


def test_equal_sources_share_a_function_and_return_what_they_return_alone(folder: str) -> None:
    def noisy(example: dict[str, Any], seed: tf.Tensor) -> dict[str, Any]:
        return {**example, "noise": tf.random.stateless_uniform([], seed)}

    transforms = [tjb.MapExamples(noisy, random=True)]
    config = replaced(replaced(mixture(folder), "big", preprocess=CAST), "small", preprocess=CAST)
    shared = tjb.build(config, transforms=transforms)
    respelled = CAST.replace(", ", ",")
    alone = tjb.build(replaced(config, "big", preprocess=respelled), transforms=transforms)
    assert len(shared.pipeline.group.functions) == 1
    assert len(alone.pipeline.group.functions) == 2
    for batch, expected in zip(host_rows(shared, 6), host_rows(alone, 6), strict=True):
        for name, values in batch.items():
            np.testing.assert_array_equal(values, expected[name])


def test_sources_stored_in_two_ways_have_two_functions(tmp_path: Path) -> None:
    sources = {}
    for number, encoding in enumerate(("none", "zlib")):
        kind = tfds.features.Tensor(shape=(2,), dtype=np.int64, encoding=encoding)
        rows = [(row, {"pair": np.array([number, row])}) for row in range(8)]
        builder = tfds.dataset_builders.store_as_tfds_dataset(
            name=encoding,
            version="1.0.0",
            features=tfds.features.FeaturesDict({"pair": kind}),
            split_datasets={"train": rows},
            data_dir=tmp_path,
        )
        sources[encoding] = tjb.Source(dataset=str(builder.data_path))
    loader = tjb.build(
        sources=sources, weights=dict.fromkeys(sources, 1), global_batch_size=8, with_sources=True
    )
    for batch in host_rows(loader, 2):
        assert batch["pair"][:, 0].tolist() == batch["_source"].tolist()


@pytest.mark.parametrize("group_size", [None, 5, 3, 1])
def test_steps_made_alone_are_those_of_the_dataset(folder: str, group_size: int | None) -> None:
    config = replaced(mixture(folder, group_size=group_size), "small", max_epochs=3)
    loader = tjb.build(config)
    assert loader.num_steps == 9
    assert_steps_are_those_of_the_dataset(loader.pipeline)


def test_law_1_groups_and_processes_change_no_row(folder: str) -> None:
    whole = host_rows(tjb.build(mixture(folder)), 5)
    for owners in ([0, 1, 2, 3], [1, 0, 0, 1]):
        layout = tjb.BatchLayout.simulate({"data": 4}, "data", ROWS, np.array(owners))
        for process in range(layout.process_count):
            config = mixture(folder, global_batch_size=0, group_size=3)
            loader = tjb.dry_run(config, layout, process_index=process)
            rows = layout.rows(process)
            for batch, expected in zip(host_rows(loader, 5), whole, strict=True):
                for name, values in batch.items():
                    np.testing.assert_array_equal(values, expected[name][rows])


def test_counts_at_are_those_of_the_batches(folder: str) -> None:
    stages = [(0, {"big": 1}), (3, {"big": 1, "small": 2})]
    loader = tjb.build(mixture(folder, weights=stages))
    sources = np.concatenate([batch["_source"] for batch in host_rows(loader, 10)])
    for step in range(11):
        found = np.bincount(sources[: step * ROWS], minlength=2).tolist()
        assert loader.counts_at(step) == {"big": found[0], "small": found[1]}
    assert loader.counts_at(3) == {"big": 24, "small": 0}
    with pytest.raises(IndexError, match="0 <= step"):
        loader.counts_at(-1)
    single = tjb.build(folder, global_batch_size=ROWS, num_epochs=2, remainder="pad")
    assert single.counts_at(4) == {"numbers/1.0.0": 31}  # 23, then one batch


def test_filters_select_examples_of_their_source(folder: str) -> None:
    even = tjb.FilterExamples(lambda number: number % 2 == 0, features=("number",), name="even")
    loader = tjb.build(replaced(mixture(folder), "big", filter=even))
    assert loader.num_examples == 12 + 6
    for batch in host_rows(loader, 5):
        assert (batch["number"][batch["_source"] == 0] % 2 == 0).all()
    with pytest.raises(tjb.ConfigError, match="Write it in a source"):
        tjb.build(mixture(folder), filter=even)


def test_errors_of_a_filter_name_the_source(folder: str) -> None:
    nothing = tjb.FilterExamples(lambda number: number < 0, features=("number",), name="none")
    with pytest.raises(tjb.SplitError) as caught:
        tjb.build(replaced(mixture(folder), "small", filter=nothing))
    assert str(caught.value).endswith("This is source 'small' of the mixture.")


def test_features_that_differ_are_shown_by_source(folder: str) -> None:
    config = replaced(mixture(folder), "small", features=("number", "nested/image"))
    config = replaced(config, "big", preprocess="cast('float32', key='number')")
    with pytest.raises(tjb.FeatureError) as caught:
        tjb.build(config)
    lines = [line.split() for line in str(caught.value).splitlines()]
    assert ["number", "float32", "big"] in lines
    assert ["number", "int64", "small"] in lines
    assert ["vector", "none", "small"] in lines
    assert "pad_to or preprocess" in str(caught.value)


def test_transforms_that_mix_rows_are_refused(folder: str) -> None:
    mix = tjb.MapBatches(lambda batch: batch, row_multiple=2, name="pairs")
    with pytest.raises(tjb.UnsupportedError, match=r"several sources; 1\. pairs mixes 2 rows"):
        tjb.build(mixture(folder), transforms=[mix])


def test_errors_name_the_source(folder: str) -> None:
    with pytest.raises(tjb.SplitError) as caught:
        tjb.build(replaced(mixture(folder), "small", split="nothing"))
    assert str(caught.value).endswith("This is source 'small' of the mixture.")


def test_errors_name_the_source_that_is_not_prepared(folder: str, tmp_path: Path) -> None:
    config = replaced(mixture(folder), "small", dataset="digits", data_dir=str(tmp_path))
    with pytest.raises(tjb.DatasetNotFoundError) as caught:
        tjb.build(config)
    assert str(caught.value).endswith("This is source 'small' of the mixture.")


@pytest.mark.parametrize("kind", [dict, ml_collections.ConfigDict])
def test_build_takes_the_fields_of_a_mixture_as_a_dict_or_keywords(folder: str, kind: Any) -> None:
    fields: dict[str, Any] = {
        "sources": {"a": {"dataset": folder}},
        "weights": {"a": 1},
        "global_batch_size": 8,
    }
    for loader in (tjb.build(kind(fields)), tjb.build(**fields)):
        assert loader.source_names == ("a",)
        assert isinstance(loader.config, tjb.MixtureConfig)
    named = tjb.build(**fields, transforms=[tjb.MapExamples(dict, name="same")])
    assert named.transform_names == ("a: 1. same",)


def test_preview_shows_one_source(folder: str) -> None:
    loader = tjb.build(mixture(folder))
    rows = np.concatenate(
        [batch["number"][batch["_source"] == 1] for batch in host_rows(loader, 3)]
    )
    assert loader.preview(4, "small")["decoded"]["number"].tolist() == rows[:4].tolist()
    with pytest.raises(tjb.ConfigError, match="Name one of 'big', 'small'"):
        loader.preview(4)


def test_explain_finds_the_example_of_any_source(folder: str) -> None:
    def refuse(example: dict[str, Any]) -> dict[str, Any]:
        tf.debugging.assert_none_equal(
            example["number"], tf.constant(10_002, tf.int64), message="no"
        )
        return example

    config = replaced(mixture(folder), "small", shuffle="none")
    loader = tjb.build(config, transforms=[tjb.MapExamples(refuse)])
    with iter(loader) as batches:
        next(batches)
        with pytest.raises(tjb.TransformError, match=r"1\. refuse fails on example 2, record 2 of"):
            next(batches)


def test_describe_shows_sources_and_stages(folder: str) -> None:
    stages = [(0, {"big": 1}), (3, {"big": 1, "small": 1})]
    config = replaced(mixture(folder, weights=stages), "small", max_epochs=2)
    lines = [line.split() for line in str(tjb.build(config).describe()).splitlines()]
    assert lines[0] == ["mixture", "of", "2", "sources"]
    (small,) = (line for line in lines if line[:1] == ["small"])
    assert small[-7:] == ["6", "12", "25", "%", "2", "3", "5"]
    assert ["0", "big", "1"] in lines
    assert ["3", "big", "1,", "small", "1"] in lines
    lines = [line.split() for line in str(tjb.build(mixture(folder)).describe()).splitlines()]
    (small,) = (line for line in lines if line[:1] == ["small"])
    assert small[-7:] == ["6", "endless", "25", "%", "endless", "0", "endless"]


def test_label_names_are_those_that_all_sources_have(folder: str) -> None:
    label = tjb.Source(dataset=folder, features=("label",))
    config = mixture(folder, sources={"big": label, "small": label})
    assert tjb.build(config).label_names == tjb.build(folder, global_batch_size=ROWS).label_names
    renumbered = replaced(
        config, "small", preprocess="cast('float32', key='label')|cast('int64', key='label')"
    )
    assert tjb.build(renumbered).label_names == {}


# ---- restore


def state_after(config: tjb.MixtureConfig, steps: int) -> Any:
    with iter(tjb.build(config)) as batches:
        for _ in range(steps):
            next(batches)
        return json.loads(json.dumps(batches.get_state()))


def numbers_from(batches: Any, count: int) -> list[int]:
    with batches:
        return [n for _ in range(count) for n in np.asarray(next(batches)["number"]).tolist()]


STAGES = [(0, {"big": 1}), (2, {"big": 1, "small": 1}), (5, {"small": 1})]


def test_restore_goes_on_in_any_stage_with_any_batch_size(folder: str) -> None:
    config = mixture(folder, weights=STAGES)
    whole = numbers_from(iter(tjb.build(config)), 8)
    for steps in range(7):
        state = state_after(config, steps)
        assert numbers_from(tjb.build(config).restore(state), 1) == whole[steps * 8 :][:8]
    # 16 rows a step: the stages keep their rows if their steps are halved.
    halved = [(0, STAGES[0][1]), (1, STAGES[1][1])]
    wide = mixture(folder, weights=halved, global_batch_size=16)
    assert numbers_from(tjb.build(wide).restore(state_after(config, 3)), 1)[:16] == whole[24:40]


def test_restore_takes_other_stages_and_sources_in_the_future(folder: str) -> None:
    config = mixture(folder, weights=STAGES)
    state = state_after(config, 3)
    other = replaced(config, "small", max_epochs=500)
    later = [*STAGES[:2], (4, {"small": 1, "aaa": 1})]
    sources = {**other.sources, "aaa": dataclasses.replace(config.sources["big"])}
    changed = dataclasses.replace(other, sources=sources, weights=later)
    found = numbers_from(tjb.build(changed).restore(state), 2)
    assert found[:8] == numbers_from(tjb.build(config).restore(state), 1)


def test_restore_takes_another_stage_that_begins_at_the_position(folder: str) -> None:
    state = state_after(mixture(folder, weights=STAGES), 2)
    other = mixture(folder, weights=[STAGES[0], (2, {"small": 1, "big": 5})])
    tjb.build(other).restore(state).close()
    with pytest.raises(tjb.StateError, match="set the weights of step 2 back"):
        tjb.build(other).restore(state_after(mixture(folder, weights=STAGES), 3))


def test_restore_refuses_another_past_and_names_the_step(folder: str) -> None:
    config = mixture(folder, weights=STAGES)
    state = state_after(config, 3)
    other = dataclasses.replace(config, weights=[STAGES[0], (2, {"big": 2, "small": 1})])
    with pytest.raises(tjb.StateError, match="set the weights of step 2 back: only later stages"):
        tjb.build(other).restore(state)
    with pytest.raises(tjb.StateError, match=r"sources\['small'\]\.examples: saved .*set split"):
        tjb.build(replaced(config, "small", split="test[:4]")).restore(state)
    with pytest.raises(tjb.StateError, match="seed: saved 0, now 1"):
        tjb.build(dataclasses.replace(config, seed=1)).restore(state)
    with pytest.raises(tjb.StateError, match=r"position 48 is beyond the 29 rows .* max_epochs"):
        tjb.build(replaced(config, "small", max_epochs=1)).restore(state_after(config, 6))


def test_restore_names_the_source_whose_max_epochs_changed(folder: str) -> None:
    def ended(epochs: int | None, exhausted: str = "redistribute") -> tjb.MixtureConfig:
        stages = [(0, {"big": 1, "small": 1}), (6, {"big": 2, "small": 1})]
        config = mixture(folder, weights=stages, exhausted=exhausted)
        return replaced(config, "small", max_epochs=epochs)

    state = state_after(ended(2), 8)  # `small` is used up in step 3
    for epochs, row in ((1, 13), (3, 25), (None, 25)):
        with pytest.raises(tjb.StateError) as caught:
            tjb.build(ended(epochs)).restore(state)
        (line,) = (line for line in str(caught.value).splitlines() if line.startswith("  "))
        assert line.startswith(f"  weights from row {row} on: saved ")
        assert "set max_epochs of 'small' back if it was used up there" in line
        assert line.endswith(f"or else the weights of step {row / 8:g}")
    with pytest.raises(
        tjb.StateError, match=r"the 25 rows of the run\. Set exhausted and max_epochs"
    ):
        tjb.build(ended(2, "stop")).restore(state)
    tjb.build(ended(2)).restore(state).close()
    # One that is not used up before the position may have another max_epochs.
    tjb.build(ended(3)).restore(state_after(ended(2), 3)).close()


def test_restore_takes_weights_of_exactly_the_same_ratios(folder: str) -> None:
    config = mixture(folder, weights={"big": 0.65, "small": 0.35})
    state = state_after(config, 2)
    whole = numbers_from(iter(tjb.build(config)), 6)
    doubled = mixture(folder, weights={"big": 1.3, "small": 0.7})
    assert numbers_from(tjb.build(doubled).restore(state), 4) == whole[16:]
    # 0.65 / 0.35 is not 65 / 35 in binary, and rows do differ.
    integers = mixture(folder, weights={"big": 65, "small": 35})
    assert numbers_from(iter(tjb.build(integers)), 6) != whole
    with pytest.raises(tjb.StateError, match="set the weights of step 0 back"):
        tjb.build(integers).restore(state)


def test_states_of_20_sources_are_small_and_tell_changes(folder: str) -> None:
    source = tjb.Source(dataset=folder, features=FIELDS)
    names = [f"source_{number:02}" for number in range(20)]
    config = mixture(
        folder,
        sources=dict.fromkeys(names, source),
        weights={name: 1 / (3 + number) for number, name in enumerate(names)},
    )
    state = state_after(config, 1)
    assert len(json.dumps(state)) < 2048
    tjb.build(config).restore(state).close()
    with pytest.raises(tjb.StateError, match=r"sources\['source_00'\]: saved"):
        tjb.build(replaced(config, "source_00", shuffle="none")).restore(state)


@pytest.mark.parametrize("kind", ["used_up", "stages"])
def test_states_of_many_stages_are_small_and_tell_changes(folder: str, kind: str) -> None:
    if kind == "used_up":  # by and by: each begins a stage
        names = [f"source_{number:02}" for number in range(20)]
        sources = {
            name: tjb.Source(dataset=folder, features=FIELDS, max_epochs=number + 1)
            for number, name in enumerate(names)
        }
        weights: Any = {name: 1 / (3 + number) for number, name in enumerate(names)}
        config = mixture(folder, sources=sources, weights=weights, exhausted="redistribute")
    else:
        weights = [(step, {"big": 1 + step / 7, "small": 2}) for step in range(100)]
        config = mixture(folder, weights=weights)
    loader = tjb.build(config)
    step = (loader.num_steps or 101) - 1
    assert len(loader.plan.mixture.stages) >= 20
    state = make_state(
        loader.plan.position_of(step), loader.fingerprint, loader.plan.global_batch_size
    )
    assert len(json.dumps(state)) < 2048
    loader.restore(state).close()
    if kind == "stages":
        weights[50] = (50, {"big": 1, "small": 1})
    else:
        weights["source_00"] = 5
    with pytest.raises(tjb.StateError, match="set the weights of past steps, and max_epochs, back"):
        tjb.build(dataclasses.replace(config, weights=weights)).restore(state)


def test_gather_examples_tells_the_sources_apart(numbers_folder: str) -> None:
    source = tjb.Source(dataset=numbers_folder)
    mixture = tjb.MixtureConfig(
        sources={"a": source, "b": source},
        weights={"a": 1, "b": 1},
        global_batch_size=40,
        with_ids=True,
    )
    with iter(tjb.build(mixture)) as batches:
        batch = next(batches)
        ids, found = tjb.gather_examples(batch, {k: batch[k] for k in ("vector", "_source")})
    assert len(ids) == 40  # 20 of each, of which many have equal indices
    assert found["_source"].tolist() == [0] * 20 + [1] * 20
    for half in (slice(0, 20), slice(20, 40)):
        assert (np.diff(ids[half]) > 0).all()
    np.testing.assert_array_equal(found["vector"][:, 0], ids)


def test_restore_of_stages_in_another_batch_size_names_the_size(numbers_folder: str) -> None:
    sources = {name: tjb.Source(dataset=numbers_folder) for name in ("a", "b")}
    mixture = tjb.MixtureConfig(
        sources=sources, weights=[(0, {"a": 1}), (2, {"a": 1, "b": 1})], global_batch_size=8
    )
    with iter(tjb.build(mixture)) as batches:
        for _ in range(4):
            next(batches)
        state = batches.get_state()
    for size in (4, 16):
        with pytest.raises(tjb.StateError) as caught:
            tjb.build(mixture, global_batch_size=size).restore(state)
        assert f"saved [[0, 8]], now [[0, {size}]]; set the size of step 0 back" in str(
            caught.value
        )
        assert "weights" not in str(caught.value)


def test_stage_that_the_run_does_not_reach_is_warned_of(
    numbers_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    sources = {
        "a": tjb.Source(dataset=numbers_folder, max_epochs=1),
        "b": tjb.Source(dataset=numbers_folder),
    }
    mixture = tjb.MixtureConfig(
        sources=sources, weights=[(0, {"a": 1}), (10, {"b": 1})], global_batch_size=8
    )
    assert tjb.build(mixture, exhausted="redistribute").num_steps == 2
    assert "from step 10 on are never reached: the run ends after 2 steps" in caplog.text


@pytest.mark.parametrize("step", [-1, 1.5, "3", 10**30, True])
def test_counts_at_a_step_that_does_not_exist_is_refused(numbers_folder: str, step: Any) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=8)
    with pytest.raises(IndexError, match="A step is an integer, 0 <= step"):
        loader.counts_at(step)
    assert loader  # which has no length
