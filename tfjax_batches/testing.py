# SPDX-License-Identifier: Apache-2.0
"""For tests of your own transforms and filters: loaders of a few examples, without any file.

Example::

    from tfjax_batches import testing

    def test_brighten():
        examples = [{"image": np.full((4, 4, 3), i, np.uint8)} for i in range(8)]
        loader = testing.loader_of(examples, transforms=[brighten])
        first = next(loader.host_batches())
        testing.check_transforms(examples, [brighten])
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import tensorflow_datasets as tfds
from jax.sharding import Mesh

from tfjax_batches.config.batch_config import config_from, sources_of
from tfjax_batches.errors import BatchesError, ConfigError, FeatureError, TransformError
from tfjax_batches.features.paths import ID, Path, flatten, nest, path_text
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.open_source import OpenSource
from tfjax_batches.loading.wiring import Destination, OpenRun, for_each_size, make_loader
from tfjax_batches.pipeline.filter_scan import find_selection
from tfjax_batches.placing.sharding import data_sharding
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.preprocess.chain import find_row_multiple, to_transforms
from tfjax_batches.preprocess.filter import FilterExamples, check_filter
from tfjax_batches.preprocess.registry import build_transforms
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.split import FileRange, Split

__all__ = ["check_transforms", "loader_of"]

Examples = Sequence[Mapping[str, Any]]


def loader_of(
    examples: Examples,
    features: tfds.features.FeaturesDict | None = None,
    *,
    transforms: Sequence[Transform] = (),
    filter: FilterExamples | None = None,
    **fields: Any,
) -> BatchLoader:
    """Return a loader of examples in memory, on the first device of this process.

    It does all that a loader of a dataset does: it encodes the examples as TFDS would write them,
    and reads, decodes, transforms and places them.

    Args:
        examples: Nested dicts of NumPy values, strings or numbers, as `tfds.load` gives them.
        features: How TFDS stores them. None: tensors of the shape and dtype that the first example
            has; strings and bytes as text.
        transforms: As for `build`.
        filter: As for `build`. Nothing is saved.
        **fields: Fields of `BatchConfig`. By default all examples, or all that `filter` selects,
            are one batch, in their order, once.

    Returns:
        A loader of this process alone, whatever other processes there are.

    Raises:
        BatchesError: As for `build`.

    Example:
        >>> import numpy as np
        >>> loader = loader_of([{"x": np.float32(1)}, {"x": np.float32(2)}])
        >>> next(loader.host_batches())["x"].tolist()
        [1.0, 2.0]
    """
    if not examples:
        raise ConfigError("loader_of takes at least one example; got none. Give some.")
    known = features or _features_of(examples)
    reader = _MemoryReader([_serialize(known, example) for example in examples])
    split = Split(
        name="examples/0.0.0",
        split="train",
        resolved=(f"train[0:{len(examples)}]",),
        ranges=(
            FileRange(path="memory", skip=0, take=len(examples), records_in_file=len(examples)),
        ),
        features=known,
    )
    selection = None
    if (chosen := check_filter(filter)) is not None:
        selection = find_selection(chosen, split, reader, uses_files=False)
    size = len(examples) if selection is None else len(selection.ids)
    defaults = {"global_batch_size": size, "shuffle": "none", "num_epochs": 1}
    config = config_from("examples", {**defaults, **fields}, "loader_of")
    sharding = data_sharding(Mesh(np.array(jax.local_devices()[:1]), ("data",)))
    destination = Destination(
        layouts=for_each_size(config, lambda rows: BatchLayout.from_sharding(sharding, rows)),
        process_index=jax.process_index(),
        sharding=sharding,
        feature_shardings={},
    )
    (source,) = sources_of(config, chosen).values()
    opened = OpenSource(
        name=split.name,
        source=source,
        split=split,
        reader=reader,
        transforms=(*build_transforms(source.preprocess), *to_transforms(transforms)),
    )
    run = OpenRun(config=config, destination=destination, sources=(opened,))
    return make_loader(run, [selection])


def check_transforms(
    examples: Examples,
    transforms: Sequence[Transform],
    features: tfds.features.FeaturesDict | None = None,
    **fields: Any,
) -> None:
    """Raise unless transforms give each example the same result every time and in any group.

    Batches are functions of config and step only if transforms keep to that: how examples are
    grouped changes with processes and speed. The examples are transformed twice in groups of
    several sizes, with padding rows among them, and compared bit by bit.

    Args:
        examples: As for `loader_of`; several different ones show more.
        transforms: As for `build`.
        features: As for `loader_of`.
        **fields: Fields of `BatchConfig`, such as `preprocess`.

    Raises:
        TransformError: Values differ; names feature and example.
        BatchesError: As for `build`, such as ConfigError for a transform that draws from
            `tf.random.uniform`.

    Example:
        >>> import numpy as np
        >>> import tfjax_batches as tjb
        >>> check_transforms(
        ...     [{"x": np.float32(i)} for i in range(5)],
        ...     [tjb.MapExamples(lambda example: {"x": 2 * example["x"]})],
        ... )
    """
    ops = build_transforms(fields.get("preprocess", ""))
    multiple = find_row_multiple([*ops, *to_transforms(transforms)])
    # One multiple more than the examples fill, so that some rows are padding.
    rows = (len(examples) // multiple + 1) * multiple
    fixed: dict[str, Any] = {
        "global_batch_size": rows,
        "remainder": "pad",
        "with_ids": True,
        "num_epochs": 1,
    }
    expected: dict[Path, Any] | None = None
    for size in (rows, rows, multiple, 2 * multiple):
        loader = loader_of(
            examples,
            features,
            transforms=transforms,
            **{"shuffle": "none", **fields, **fixed, "group_size": min(size, rows)},
        )
        found = flatten(next(loader.host_batches()))
        expected = found if expected is None else expected
        for path, values in expected.items():
            if (row := _first_difference(values, found[path])) is not None:
                what = f"{path_text(path)!r} of example {expected[(ID,)][row]}"
                both = f"is {values[row]!r} and then {found[path][row]!r}"
                if size == rows:
                    raise TransformError(
                        f"Transforms must give an example one result every time; {what} {both} "
                        "in a second run. Take random numbers from tf.random.stateless_* with the "
                        "seed of random=True."
                    )
                raise TransformError(
                    f"Transforms must give an example the same result in any group; {what} {both}, "
                    f"in a group of {rows} rows and in groups of {size}. Let each row of a "
                    "MapBatches depend on that row alone, or give row_multiple."
                )


class _MemoryReader:
    """A `RecordReader` of records in memory."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self._records = records

    def open(self) -> None:
        """Do nothing: there is no file."""

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the record of each example, object[n]."""
        return np.fromiter((self._records[e] for e in examples.tolist()), object, len(examples))

    def reads_ranges(self) -> bool:
        """Return False."""
        return False

    def mean_record_bytes(self) -> float:
        """Return the mean size of a record, in bytes."""
        return max(1.0, sum(map(len, self._records)) / len(self._records))

    def describe(self, example: int) -> str:
        """Return which example it is."""
        return f"example {example}"

    def index_location(self) -> str:
        """Return where the index is: there is none."""
        return "memory"


def _features_of(examples: Examples) -> tfds.features.FeaturesDict:
    """Return features of the shapes and dtypes of the first example, which all others fit."""
    if not all(isinstance(example, Mapping) for example in examples):
        raise ConfigError(
            f"Examples are dicts of features; got {examples!r}. Write [{{'x': np.float32(1)}}, …]."
        )
    first, *others = [flatten(example) for example in examples]
    features = {path: _feature_of(path_text(path), value) for path, value in first.items()}
    for other in others:
        for path, value in other.items():
            dtype = np.asarray(first.get(path, value)).dtype
            if not np.can_cast(np.asarray(value).dtype, dtype, "same_kind"):
                raise FeatureError(
                    f"Examples have the dtypes of the first one; {path_text(path)!r} is {dtype} "
                    f"there, and {value!r} later. Correct the example, or give loader_of its "
                    "features."
                )
    return tfds.features.FeaturesDict(nest(features))


def _feature_of(name: str, value: Any) -> tfds.features.FeatureConnector:
    array = np.asarray(value)
    if array.dtype.kind in "SU" and array.ndim == 0:
        return tfds.features.Text()
    if array.dtype.kind in "OSU":
        raise FeatureError(
            "Features in memory are arrays of numbers, or one string; "
            f"{name!r} is {array.dtype} of shape {array.shape}. Give loader_of its features."
        )
    return tfds.features.Tensor(shape=array.shape, dtype=array.dtype)


def _serialize(features: tfds.features.FeaturesDict, example: Mapping[str, Any]) -> bytes:
    try:
        record: bytes = features.serialize_example(features.encode_example(example))
    except BatchesError:
        raise
    # Whatever TFDS raises for a value that a feature cannot hold.
    except Exception as error:
        raise FeatureError(
            f"Examples fit their features, {features}; {example!r} does not: {error}. Correct the "
            "example, or give loader_of its features."
        ) from error
    return record


def _first_difference(expected: npt.NDArray[Any], found: npt.NDArray[Any]) -> int | None:
    """Return the first row whose bits differ; None: there is none."""
    for row, (one, other) in enumerate(zip(expected, found, strict=True)):
        if not _are_equal(np.asarray(one), np.asarray(other)):
            return row
    return None


def _are_equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Return whether two values have the same bits."""
    if one.dtype != object:
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    if one.ndim == 0:  # a string
        return bool(one.item() == other.item())
    return len(one) == len(other) and all(
        _are_equal(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True)
    )
