# SPDX-License-Identifier: Apache-2.0
"""The engines that bench.py compares: ways to read a dataset, each as its authors recommend.

An engine yields shuffled batches of global arrays without end. For `jpeg` all apply the same random
crop and flip, on the encoded bytes if they can.
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
from tfjax_batches.planning.seeds import derive_seeds

SHUFFLE_BUFFER = 10_000
GRAIN_THREADS = 4
GRAIN_WORKERS = 2
MIXTURE = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}  # weights of the sources of tfjax_mixture

SHARDING = NamedSharding(
    Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model")), PartitionSpec("data")
)


# The area and aspect ratio of random crops: from Inception, and the defaults of decode_random_crop.
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
PREPROCESS = {"jpeg": f"decode_random_crop({CROP})|flip_lr"}


def crop_and_flip(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Decode a random window of a JPEG, resize it to uint8[224, 224, 3], and flip half of them.

    Args:
        encoded: The JPEG, string[].
        seed: int[2].
    """
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=RATIO,
        area_range=AREA,
    )
    window = tf.concat([begin[:2], extent[:2]], 0)
    image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    image = tf.cast(tf.image.resize(image, [CROP, CROP]) + 0.5, tf.uint8)
    return tf.image.stateless_random_flip_left_right(image, seed)


# ---- this library


def build_loader(workload: Workload, data_dir: str, **fields: Any) -> tjb.BatchLoader:
    """Return the loader of this library for a workload, whose dataset it writes if missing."""
    return tjb.build(
        bench_workloads.prepare(workload, data_dir, "tfrecord"),
        SHARDING,
        global_batch_size=workload.batch_size,
        preprocess=PREPROCESS.get(workload.name, ""),
        **fields,
    )


def tfjax_batches(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Return what opens the iterator of this library."""
    loader = build_loader(workload, data_dir)
    return lambda: iter(loader)


def tfjax_mixture(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Return what opens the iterator of a mixture of four copies of the dataset."""
    folder = bench_workloads.prepare(workload, data_dir, "tfrecord")
    source = tjb.Source(dataset=folder, preprocess=PREPROCESS.get(workload.name, ""))
    mixture = tjb.MixtureConfig(
        sources={name: dataclasses.replace(source) for name in MIXTURE},
        weights=MIXTURE,
        global_batch_size=workload.batch_size,
    )
    loader = tjb.build(mixture, SHARDING)
    return lambda: iter(loader)


# ---- TFDS and CLU: tf.data, with a shuffle buffer


def skip_decoders(workload: Workload) -> dict[str, Any] | None:
    """Return the TFDS decoders that keep the images of `jpeg` encoded."""
    return {"image": tfds.decode.SkipDecoding()} if workload.name == "jpeg" else None


def crop_example(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Crop the image of an example."""
    seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    return {**example, "image": crop_and_flip(example["image"], seed)}


def tfds_as_dataset(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Return what opens TFDS with a shuffle buffer, and keeps two batches on the devices."""
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
    """Return what opens CLU's deterministic_data, and keeps two batches on the devices."""
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
    """Yield global arrays two batches ahead, as the examples of Flax do."""

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
    """Crops the image of an example with Pillow, which decodes whole JPEGs."""

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        """Return the example with the crop as its image."""
        import PIL.Image

        random = np.random.default_rng()
        with PIL.Image.open(io.BytesIO(example["image"])) as photo:
            box = draw_box(random, photo.width, photo.height)
            image = photo.resize((CROP, CROP), PIL.Image.Resampling.BILINEAR, box)
        if random.random() < 0.5:
            image = image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
        return {**example, "image": np.asarray(image)}


def draw_box(random: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a random window, drawn like that of `crop_and_flip`."""
    for _ in range(100):
        ratio = random.uniform(*RATIO)
        # Like TensorFlow, draw the height uniformly, not the area.
        least, most = (np.sqrt(area * width * height / ratio) for area in AREA)
        box_height = round(random.uniform(least, most))
        box_width = round(box_height * ratio)
        if box_height <= height and box_width <= width:
            left = int(random.integers(0, width - box_width + 1))
            top = int(random.integers(0, height - box_height + 1))
            return left, top, left + box_width, top + box_height
    return 0, 0, width, height


def grain_source(workload: Workload, data_dir: str) -> Any:
    """Return the random-access data source of TFDS."""
    folder = bench_workloads.prepare(workload, data_dir, "array_record")
    builder = tfds.builder_from_directory(folder)
    return builder.as_data_source(split="train", decoders=skip_decoders(workload))


def grain_map(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Return what opens Grain's MapDataset, which reads in threads."""
    import grain

    dataset = grain.MapDataset.source(grain_source(workload, data_dir)).shuffle(seed=0).repeat()
    if workload.name == "jpeg":
        dataset = dataset.map(CropExample())
    dataset = dataset.batch(workload.batch_size)
    options = grain.ReadOptions(num_threads=GRAIN_THREADS, prefetch_buffer_size=16)
    return lambda: to_device(iter(dataset.to_iter_dataset(options)))


def grain_loader(workload: Workload, data_dir: str) -> Callable[[], Iterator[Any]]:
    """Return what opens Grain's DataLoader, which reads in processes."""
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # Grain reads absl flags

    class Crop(grain.transforms.Map):
        """Crops the image of each example."""

        def map(self, element: Any) -> Any:
            """Return the example with the crop as its image."""
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
    """Measure decoding of records in memory with one thread per core.

    Returns:
        Examples per second, and CPU time of each example in µs.
    """
    pipeline = build_loader(workload, data_dir).pipeline
    # One step per call, like the peers: calls for several steps cost less per example.
    rows = pipeline.group_sizes_at(0).group_rows
    count = min(64, workload.num_examples // rows)
    parts = np.arange(count * rows).reshape(count, rows)
    seeds = derive_seeds(
        0, np.zeros(rows, np.int64), parts[0], pipeline.group.sources[0].chain.seed_places
    )
    groups = [
        [
            tf.constant(values)
            for values in (part, np.zeros(rows, np.int32), pipeline.readers[0].read(part), seeds)
        ]
        for part in parts
    ]
    decode = pipeline.group.trace(rows)
    decode(*groups[0])
    threads = len(os.sched_getaffinity(0))
    done = [0] * threads
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            decode(*groups[done[number] % len(groups)])
            done[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(min(1.0, seconds))
    start, cpu_start, before = time.perf_counter(), time.process_time(), sum(done)
    time.sleep(seconds)
    decoded = (sum(done) - before) * rows
    rate = decoded / (time.perf_counter() - start)
    cpu_us = (time.process_time() - cpu_start) / decoded * 1e6
    stop.set()
    for worker in workers:
        worker.join()
    return rate, cpu_us


ENGINES: dict[str, Callable[[Workload, str], Callable[[], Iterator[Any]]]] = {
    "tfjax_batches": tfjax_batches,
    "tfjax_mixture": tfjax_mixture,
    "tfds": tfds_as_dataset,
    "clu": clu,
    "grain_map": grain_map,
    "grain_loader": grain_loader,
}
