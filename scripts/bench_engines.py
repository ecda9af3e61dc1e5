# SPDX-License-Identifier: Apache-2.0
"""The ways to read a dataset that bench.py compares, each as its authors advise.

An engine gives batches of global arrays, endless and shuffled. For `jpeg` each applies the same
random crop and flip, on the encoded bytes where it can.
"""

import collections
import dataclasses
import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import bench_workloads
import jax
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from bench_workloads import CROP, Workload
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.rows import UNROLL_LIMIT, map_rows

SHUFFLE_BUFFER = 10_000
GRAIN_THREADS = 4
GRAIN_WORKERS = 2

SHARDING = NamedSharding(
    Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model")), PartitionSpec("data")
)


def crop_and_flip(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Return uint8[224, 224, 3]: a random window of a JPEG, decoded alone, perhaps flipped.

    Args:
        encoded: The JPEG, string[].
        seed: int64[2].
    """
    size = tf.io.extract_jpeg_shape(encoded)[:2]
    top_left_coin = tf.random.stateless_uniform([3], seed)
    corner = tf.cast(top_left_coin[:2] * tf.cast(size - CROP + 1, tf.float32), tf.int32)
    window = tf.concat([corner, [CROP, CROP]], 0)
    image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    return tf.cond(top_left_coin[2] < 0.5, lambda: image[:, ::-1], lambda: image)


# ---- this library


def build_loader(workload: Workload, data_dir: str) -> tjb.BatchLoader:
    """Return the loader; for `jpeg` with the crop where a later version has `preprocess`."""
    folder = bench_workloads.prepare(workload, data_dir, "tfrecord")
    loader = tjb.build(folder, SHARDING, global_batch_size=workload.batch_size)
    if workload.name != "jpeg":
        return loader
    spec = loader.element_spec["image"]
    cropped = jax.ShapeDtypeStruct((spec.shape[0], CROP, CROP, 3), spec.dtype, sharding=SHARDING)
    return dataclasses.replace(
        loader,
        _decoder=encoded_decoder(folder),
        _transform=crop_group,
        _flat_spec={**loader._flat_spec, "image": cropped},
    )


def encoded_decoder(folder: str) -> Decoder:
    """Return the decoder of `jpeg` that leaves images encoded."""
    features = tfds.builder_from_directory(folder).info.features
    return Decoder(features, None, "jpeg", encoded=("image",))


def crop_group(
    features: dict[str, tf.Tensor], epochs: tf.Tensor, examples: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Crop the images of a group, each with a seed of its epoch and example."""
    rows = {"image": features["image"], "seed": tf.stack([epochs, examples], 1)}
    image = map_rows(
        lambda row: crop_and_flip(row["image"], row["seed"]),
        rows,
        tf.TensorSpec((CROP, CROP, 3), tf.uint8),
    )
    return {**features, "image": image}


def tfjax_batches(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """This library."""
    loader = build_loader(workload, data_dir)
    return lambda: iter(loader)


# ---- TFDS and CLU: tf.data, with a shuffle buffer


def skip_decoders(workload: Workload) -> dict[str, Any] | None:
    """Return TFDS's decoders that leave the images of `jpeg` encoded."""
    return {"image": tfds.decode.SkipDecoding()} if workload.name == "jpeg" else None


def crop_example(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Crop one image."""
    seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    return {**example, "image": crop_and_flip(example["image"], seed)}


def tfds_as_dataset(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """TFDS with a shuffle buffer, and a two-deep deque to the device."""
    builder = tfds.builder_from_directory(bench_workloads.prepare(workload, data_dir, "tfrecord"))
    dataset = builder.as_dataset(
        split="train", shuffle_files=True, decoders=skip_decoders(workload)
    )
    dataset = dataset.repeat().shuffle(SHUFFLE_BUFFER)
    if workload.name == "jpeg":
        dataset = dataset.map(crop_example, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(
        workload.batch_size, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE
    ).prefetch(tf.data.AUTOTUNE)
    return lambda: to_device(dataset.as_numpy_iterator())


def clu(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """CLU's deterministic_data, and the same deque."""
    from clu import deterministic_data

    builder = tfds.builder_from_directory(bench_workloads.prepare(workload, data_dir, "tfrecord"))

    def crop(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        seed = example.pop("rng")
        if workload.name == "jpeg":
            example["image"] = crop_and_flip(example["image"], seed[:2])
        return example

    dataset = deterministic_data.create_dataset(
        builder,
        split="train",
        batch_dims=[workload.batch_size],
        rng=jax.random.PRNGKey(0),
        shuffle_buffer_size=SHUFFLE_BUFFER,
        preprocess_fn=crop,
        decoders=skip_decoders(workload),
    )
    return lambda: to_device(dataset.as_numpy_iterator())


def to_device(host_batches: Iterator[Any]) -> Iterator[Any]:
    """Yield global arrays, two batches ahead, as Flax's examples do."""

    def put() -> Any:
        batch = next(host_batches)
        return jax.tree.map(
            lambda x: jax.make_array_from_process_local_data(SHARDING, np.asarray(x)), batch
        )

    ready = collections.deque(put() for _ in range(2))
    while True:
        yield ready.popleft()
        ready.append(put())


# ---- Grain: ArrayRecord by index, decoded by TFDS in NumPy


class CropExample:
    """Crops one image with Pillow, which decodes whole JPEGs."""

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        """Return the example with its crop."""
        import PIL.Image

        random = np.random.default_rng()
        with PIL.Image.open(io.BytesIO(example["image"])) as photo:
            left = int(random.integers(0, photo.width - CROP + 1))
            top = int(random.integers(0, photo.height - CROP + 1))
            image = np.asarray(photo.crop((left, top, left + CROP, top + CROP)))
        if random.random() < 0.5:
            image = image[:, ::-1]
        return {**example, "image": np.ascontiguousarray(image)}


def grain_source(workload: Workload, data_dir: str) -> Any:
    """Return TFDS's random-access source."""
    folder = bench_workloads.prepare(workload, data_dir, "array_record")
    builder = tfds.builder_from_directory(folder)
    return builder.as_data_source(split="train", decoders=skip_decoders(workload))


def grain_map(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Grain's MapDataset, which reads in threads."""
    import grain

    dataset = grain.MapDataset.source(grain_source(workload, data_dir)).shuffle(seed=0).repeat()
    if workload.name == "jpeg":
        dataset = dataset.map(CropExample())
    dataset = dataset.batch(workload.batch_size)
    options = grain.ReadOptions(num_threads=GRAIN_THREADS, prefetch_buffer_size=16)
    return lambda: to_device(iter(dataset.to_iter_dataset(options)))


def grain_loader(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Grain's DataLoader, which reads in processes."""
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # Grain asks for flags of its own

    class Crop(grain.transforms.Map):
        """Crops."""

        def map(self, element: Any) -> Any:
            """Crop one image."""
            return CropExample()(element)

    source = grain_source(workload, data_dir)
    operations = [Crop()] if workload.name == "jpeg" else []
    loader = grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(
            num_records=len(source), shuffle=True, seed=0, num_epochs=None
        ),
        operations=[*operations, grain.transforms.Batch(workload.batch_size, drop_remainder=True)],
        worker_count=GRAIN_WORKERS,
    )
    return lambda: to_device(iter(loader))


# ---- what decoding alone allows


def measure_limit(workload: Workload, data_dir: str, seconds: float) -> tuple[float, float]:
    """Return examples/s, and CPU µs of each, of decoding records in memory, in a thread a core."""
    loader = build_loader(workload, data_dir)
    # Batch by batch, like everything else here: a call for several would cost less an example.
    rows = (
        min(workload.batch_size, UNROLL_LIMIT)
        if workload.name == "small_png"
        else (workload.batch_size)
    )
    count = min(64, workload.num_examples // rows)
    examples = np.arange(count * rows).reshape(count, rows)
    groups = [tf.constant(loader._reader.read(part)) for part in examples]

    @tf.function
    def decode(records: tf.Tensor) -> dict[str, tf.Tensor]:
        features = loader._decoder.decode(records)
        if workload.name == "jpeg":
            numbers = tf.range(rows, dtype=tf.int64)  # crops near the top are decoded faster
            features = crop_group(features, numbers, numbers)
        return features

    decode(groups[0])
    threads = len(os.sched_getaffinity(0))
    done = [0] * threads
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            decode(groups[done[number] % len(groups)])
            done[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(min(1.0, seconds))
    start, cpu_start, before = time.perf_counter(), time.process_time(), sum(done)
    time.sleep(seconds)
    examples = (sum(done) - before) * rows
    rate = examples / (time.perf_counter() - start)
    cpu_us = (time.process_time() - cpu_start) / examples * 1e6
    stop.set()
    for worker in workers:
        worker.join()
    return rate, cpu_us


ENGINES: dict[str, Callable[[Workload, str], Callable[[], Iterator[Any]]]] = {
    "tfjax_batches": tfjax_batches,
    "tfds": tfds_as_dataset,
    "clu": clu,
    "grain_map": grain_map,
    "grain_loader": grain_loader,
}
