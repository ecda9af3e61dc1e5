# SPDX-License-Identifier: Apache-2.0
"""One source of a run whose split is open: what becomes of its records, and what identifies it."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.config.mixture_config import Source
from tfjax_batches.config.op_grammar import parse_ops
from tfjax_batches.errors import BatchesError
from tfjax_batches.features.paths import Path, path_text
from tfjax_batches.pipeline.filter_scan import find_selection
from tfjax_batches.pipeline.source_function import SourceFunction
from tfjax_batches.planning.selection import Selection
from tfjax_batches.preprocess.chain import find_encoded, to_transforms
from tfjax_batches.preprocess.registry import (
    OPS_VERSION,
    bind_call,
    build_transforms,
    is_library_op,
)
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader, open_reader
from tfjax_batches.reading.label_names import find_label_names
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import Split, open_split


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenSource:
    """A source whose split is open.

    Attributes:
        name: Its name in the mixture; in a run of one dataset, that of the dataset.
        source: What the user said of it; its split is the text of its ranges.
        split: Its records.
        reader: Access to them.
        transforms: Those of the ops of `preprocess`, then those given to `build`.
    """

    name: str
    source: Source
    split: Split
    reader: RecordReader
    transforms: tuple[Transform, ...]

    def describe(self) -> str:
        """Return dataset and split, for titles."""
        return f"{self.split.name}, split {self.split.split!r}"

    def select(self) -> Selection | None:
        """Return the examples that its filter selects; None: it has none."""
        if self.source.filter is None:
            return None
        return find_selection(self.source.filter, self.split, self.reader)

    def make_decoder(self) -> Decoder:
        """Return what makes features of its records."""
        return Decoder(
            self.split.features,
            self.source.features,
            self.split.name,
            encoded=find_encoded(self.transforms),
            pad_to=self.source.pad_to,
        )

    def fingerprint(self, function: SourceFunction) -> dict[str, Any]:
        """Return what its rows depend on, as JSON values."""
        calls = parse_ops(self.source.preprocess)
        # Where the function is the user's, only its graph tells whether it is still the same.
        own = [place for place, call in enumerate(calls) if not is_library_op(call.name)]
        own += range(len(calls), len(self.transforms))
        return {
            "dataset": self.split.name,
            "examples": list(self.split.resolved),
            "features": sorted(map(path_text, function.decoder.specs)),
            "pad_to": {path_text(name): length for name, length in self.source.pad_to.items()},
            "ops": [bind_call(call) for call in calls],
            "ops_version": OPS_VERSION if calls else None,
            "transforms": list(function.chain.names[len(calls) :]),
            # Another release of TensorFlow may trace one function to another graph.
            "graphs": {tf.__version__: function.chain.digest(own)} if own else {},
        }

    def label_names(self, function: SourceFunction) -> dict[str, tuple[str, ...]]:
        """Return the names of the classes of labels that reach the batch as TFDS decoded them."""
        specs = function.chain.specs
        paths: list[Path] = [
            path for path in function.chain.unchanged_paths if specs[path].dtype.kind in "iu"
        ]
        return find_label_names(self.split.features, paths)


@contextmanager
def naming_source(name: str) -> Iterator[None]:
    """Add to errors which source of a mixture they are about; empty: there is only one."""
    try:
        yield
    except BatchesError as error:
        if name:
            # Not a note, which only a traceback shows.
            error.args = (f"{error} This is source {name!r} of the mixture.",)
        raise


def open_source(
    name: str,
    source: Source,
    builder: tfds.core.DatasetBuilder,
    transforms: Sequence[Transform],
    options: ReaderOptions,
) -> OpenSource:
    """Return a source of a prepared dataset; reads its metadata only.

    Args:
        name: Its name. Empty: that of the dataset.
        source: What the user said of it.
        builder: The dataset.
        transforms: Those given to `build`.
        options: How records are read.
    """
    split = open_split(builder, source.split)
    return OpenSource(
        name=name or split.name,
        source=dataclasses.replace(source, split=split.split),
        split=split,
        reader=open_reader(split, options),
        transforms=(*build_transforms(source.preprocess), *to_transforms(transforms)),
    )
