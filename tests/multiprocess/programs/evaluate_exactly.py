# SPDX-License-Identifier: Apache-2.0
"""Evaluates splits of many sizes on this process's share, and compares with NumPy."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import thing_example

BATCH_SIZES = [4, 8]


def predict(vectors: Any, np_like: Any) -> Any:
    """Return a label [n] of vectors [n, 3]: a guess that is right for some."""
    return np_like.abs(vectors).sum(1).astype("int32") % 3


@functools.cache
def expected_counts(folder: Path) -> tuple[int, list[int]]:
    """Return how many are right, over all and by label, from NumPy over what TFDS reads."""
    dataset = tfds.builder_from_directory(str(folder)).as_dataset(split="train", batch_size=-1)
    examples = tfds.as_numpy(dataset)
    correct = predict(examples["vector"], np) == examples["label"]
    return int(correct.sum()), np.bincount(examples["label"][correct], minlength=3).tolist()


@jax.jit
def eval_step(batch: dict[str, Any]) -> tuple[dict[str, jax.Array], jax.Array, jax.Array]:
    """Return results per row, the number right, and the mean over the real rows."""
    correct = predict(batch["vector"], jnp) == batch["label"]
    results = {"label": batch["label"], "correct": correct}
    count = jnp.sum(correct, where=batch["_mask"])
    return results, count, tjb.masked_mean(correct, batch["_mask"])


def check_evaluation(folder: Path, num_examples: int, global_batch_size: int) -> None:
    loader = tjb.build(
        str(folder),
        global_batch_size=global_batch_size,
        num_epochs=1,
        remainder="pad",
        with_ids=True,
    )
    assert len(loader) == -(-num_examples // global_batch_size)
    all_ids, all_labels, correct, total, weighted = [], [], [], 0, 0.0
    with iter(loader) as batches:
        for batch in batches:
            # Forced CPU devices share few threads: one step with collectives at a time.
            results, count, mean = jax.block_until_ready(eval_step(batch))
            ids, values = tjb.gather_examples(batch, results)
            total += int(count)
            weighted += float(mean) * len(ids)
            assert float(mean) == np.float32(int(count)) / np.float32(len(ids))
            all_ids += ids.tolist()
            all_labels += values["label"].tolist()
            correct += values["correct"].tolist()
    assert sorted(all_ids) == list(range(num_examples))
    counts = np.bincount(np.array(all_labels)[correct], minlength=3).tolist()
    assert (total, counts) == expected_counts(folder)
    assert np.mean(correct) == total / num_examples
    np.testing.assert_allclose(weighted / num_examples, np.mean(correct), rtol=1e-6)
    print(f"counts_{num_examples}_{global_batch_size}: {total} {counts}", flush=True)


def check_filter(folder: Path) -> None:
    """Each selected example counts once, whichever process it is on; all select the same."""
    thirds = tjb.FilterExamples(lambda number: number % 3 == 1, features=("number",), name="thirds")
    loader = tjb.build(
        str(folder),
        global_batch_size=8,
        num_epochs=1,
        remainder="pad",
        with_ids=True,
        filter=thirds,
    )
    found = []
    with iter(loader) as batches:
        for batch in batches:
            ids, numbers = tjb.gather_examples(batch, batch["number"])
            np.testing.assert_array_equal(numbers, ids)
            found += ids.tolist()
    assert loader.num_examples == len(found) == 21
    assert sorted(found) == [number for number in range(63) if number % 3 == 1]
    selection = loader.plan.sources[0].selection
    print(f"counts_selected: {selection.fingerprint}", flush=True)


def check_odd_filters_are_named(folder: Path) -> None:
    """A filter on one process alone, one name over other examples, and a bare function."""
    if jax.process_count() == 1:
        return
    index = jax.process_index()

    def build(limit: int, name: str) -> None:
        below = tjb.FilterExamples(
            lambda number: number < limit, features=("number",), name=name or "unused"
        )
        tjb.build(str(folder), global_batch_size=8, filter=below if name else None)

    with pytest.raises(tjb.AgreementError, match="filter: process"):
        build(60, "odd" if index == 1 else "")
    with pytest.raises(
        tjb.AgreementError, match=r"selected examples: process .*6[01] of 63 examples"
    ):
        build(60 + (index == 1), "limited")
    bare: Any = build if index == 1 else None
    with pytest.raises(
        tjb.ConfigError if index == 1 else tjb.AgreementError,
        match="filter must be a Filter",
    ):
        tjb.build(str(folder), global_batch_size=8, filter=bare)


def check_host_features(folder: str) -> None:
    """Host features are those of this process's rows; padding is the same on all processes."""
    loader = tjb.build(
        folder,
        global_batch_size=8,
        num_epochs=1,
        remainder="pad",
        shuffle="none",
        keep_on_host=("text", "big", "words", "photo", "paths"),
        pad_to={"objects": 2},
    )
    with iter(loader) as batches:
        for step, batch in enumerate(batches):
            tjb.check_replicas(batch)
            host = batch["_host"]
            examples = loader.plan_step(step).examples.tolist()
            assert {len(host[name]) for name in host} == {len(examples)}
            for row, example_id in enumerate(examples):
                if example_id < 0:
                    assert (host["text"][row], host["big"][row]) == (b"", 0)
                    assert host["words"][row].size == host["photo"][row].size == 0
                    continue
                example = thing_example(example_id)
                assert host["text"][row] == example["text"].encode()
                assert host["big"][row] == example["big"]
                assert [word.decode() for word in host["words"][row]] == example["words"]
                assert [part.tolist() for part in host["paths"][row]] == example["paths"]
                np.testing.assert_array_equal(host["photo"][row], example["photo"])
    print(f"host_rows: {len(examples)}", flush=True)


def main(folders: str, things: str) -> None:
    """Print the counts per size and batch size, which must not depend on the processes.

    Args:
        folders: Holds a folder of `Numbers` for each size, named by the size.
        things: The folder of `Things`.
    """
    for folder in sorted(Path(folders).iterdir()):
        for global_batch_size in BATCH_SIZES:
            (data,) = folder.glob("numbers/*")
            check_evaluation(data, int(folder.name), global_batch_size)
        if folder.name == "63":
            check_filter(data)
            check_odd_filters_are_named(data)
    check_host_features(things)
