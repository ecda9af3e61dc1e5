# SPDX-License-Identifier: Apache-2.0
"""Prints which rows each process would load, on machines that one does not have.

python scripts/show_layout.py --mesh=data=8,model=4 --spec=data --global_batch_size=1024 \
        --processes=16 [--dataset=digits --split=train --data_dir=…]
"""

import math
import sys
from collections.abc import Sequence

from absl import app, flags

import tfjax_batches as tjb
from tfjax_batches.planning.mesh import parse_mesh_shape, parse_spec

_MESH = flags.DEFINE_string("mesh", None, "Axes and sizes in order: data=8,model=4.", required=True)
_SPEC = flags.DEFINE_string(
    "spec", "data", "Axes of each dim, as in host+device,-,seq; - for a dim that is not split."
)
_GLOBAL_BATCH_SIZE = flags.DEFINE_integer(
    "global_batch_size", None, "Rows of a step.", lower_bound=1, required=True
)
_PROCESSES = flags.DEFINE_integer(
    "processes", 1, "Processes, which own equal runs of devices in mesh order.", lower_bound=1
)
_DATASET = flags.DEFINE_string("dataset", None, "Adds the bytes of a step of this TFDS dataset.")
_SPLIT = flags.DEFINE_string("split", "train", "Split of the dataset.")
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder of prepared datasets.")


def describe_bytes(layout: tjb.BatchLayout) -> str:
    """Return what a step of the dataset weighs, decoded, in all and per process."""
    # Here, because a layout alone needs no TensorFlow, which takes seconds to import.
    from tfjax_batches.reading.decode import Decoder
    from tfjax_batches.reading.destinations import check_device_features
    from tfjax_batches.reading.source import open_builder, open_source

    source = open_source(open_builder(_DATASET.value, _DATA_DIR.value), _SPLIT.value)
    specs = Decoder(source.features, None, source.name).specs
    check_device_features(specs, (), source.name)
    row_bytes = sum(math.prod(s.fixed_shape) * s.dtype.itemsize for s in specs.values())
    sizes = [layout.process_batch_size(index) for index in range(layout.process_count)]
    return (
        f"{source.name} {source.split}: {row_bytes:,} bytes a row; a step is "
        f"{row_bytes * layout.global_batch_size:,} bytes in all, at most "
        f"{row_bytes * max(sizes):,} on one process"
    )


def main(argv: Sequence[str]) -> None:
    """Print the layout."""
    if len(argv) > 1:
        raise app.UsageError(f"All arguments are flags; got {argv[1:]}. Write --name=value.")
    try:
        layout = tjb.BatchLayout.simulate(
            parse_mesh_shape(_MESH.value),
            parse_spec(_SPEC.value),
            _GLOBAL_BATCH_SIZE.value,
            _PROCESSES.value,
        )
        print(layout.describe())
        if _DATASET.value:
            print(describe_bytes(layout))
    except tjb.BatchesError as error:
        sys.exit(f"show_layout: {error}")


if __name__ == "__main__":
    app.run(main)
