# SPDX-License-Identifier: Apache-2.0
"""`preview`: the first examples of a run, stage by stage."""

import argparse
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tfjax_batches.commands.cli import given_fields
from tfjax_batches.features.paths import flatten, path_text
from tfjax_batches.loading.dry_run import dry_run
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.schedule import Schedule
from tfjax_batches.showing.batch import array_text
from tfjax_batches.text.description import Description, Table
from tfjax_batches.text.values import shorten, value_text

_VALUES_WIDTH = 60


def run(arguments: argparse.Namespace) -> int:
    """Print the values of the features, decoded and after each transform."""
    fields = given_fields(arguments)
    batch_size = Schedule.of(fields.get("global_batch_size", arguments.rows)).rows_at(0)
    layout = BatchLayout.simulate({"data": 1}, (), batch_size, process_of_device=1)
    loader = dry_run(fields.pop("dataset"), layout, **fields)
    descriptions = [
        _describe_stage(f"{source}: {stage}" if len(loader.sources) > 1 else stage, features)
        for source, plan in zip(loader.sources, loader.plan.sources, strict=True)
        for stage, features in loader.preview(
            min(arguments.rows, plan.epochs.delivered), source
        ).items()
    ]
    print("\n\n".join(map(str, descriptions)))
    return 0


def _describe_stage(stage: str, features: Mapping[str, Any]) -> Description:
    rows = (
        (
            path_text(path),
            array_text(array.dtype, array.shape),
            *_bounds(array),
            _values_text(array),
        )
        for path, array in flatten(features).items()
    )
    header = ("feature", "array", "min", "max", "values")
    return Description(stage, (Table(tuple(rows), header),))


def _bounds(array: npt.NDArray[Any]) -> tuple[str, str]:
    if array.dtype.kind in "OSU" or not array.size:
        return "", ""
    return value_text(array.min()), value_text(array.max())


def _values_text(array: npt.NDArray[Any]) -> str:
    return shorten(" | ".join(map(value_text, array)).replace("\n", " "), _VALUES_WIDTH)
