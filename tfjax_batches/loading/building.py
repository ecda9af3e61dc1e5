# SPDX-License-Identifier: Apache-2.0
"""`build`: a config and a sharding become a loader, in step with all other processes."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import tensorflow_datasets as tfds
from absl import logging
from jax.sharding import NamedSharding

from tfjax_batches.config.batch_config import BatchConfig, config_from
from tfjax_batches.loading.accelerators import hide_accelerators_from_tensorflow
from tfjax_batches.loading.agreement import check_agreement, run_in_turns, run_together
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.process_facts import config_facts, data_facts
from tfjax_batches.loading.wiring import Destination, OpenRun, make_loader, open_run
from tfjax_batches.pipeline.filter_scan import find_selection
from tfjax_batches.placing.sharding import data_sharding
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.selection import Selection
from tfjax_batches.preprocess.filter import FilterExamples, check_filter
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.data_files import check_files_exist
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.prepare import prepare, reopen


def build(
    config: BatchConfig | Mapping[str, Any] | str | tfds.core.DatasetBuilder | None = None,
    sharding: NamedSharding | None = None,
    *,
    feature_shardings: Mapping[Any, NamedSharding] | None = None,
    transforms: Sequence[Transform] = (),
    filter: FilterExamples | None = None,
    **fields: Any,
) -> BatchLoader:
    """Return the loader of a config. Reads the dataset's metadata, and records only for a filter.

    With more than one process, every process calls it, with equal arguments. No other call of a
    loader or iterator waits for another process.

    Args:
        config: A `BatchConfig`; or a dict or `ConfigDict` of its fields; or a dataset (name, folder
            or builder) with the other fields as keywords. None: all fields are keywords.
        sharding: Sharding of every feature. Its first spec entry names the data axes; its spec is
            cut to the rank of each feature. None: dim 0 over all devices.
        feature_shardings: Shardings by feature name, on the same mesh, in place of `sharding`.
        transforms: `MapExamples` and `MapBatches`, applied in order after the ops of `preprocess`.
            Each is traced and checked here, before any data is read.
        filter: Selects examples by a function of their features. It is evaluated once over the
            split; later runs find the result under its name. None: all examples.
        **fields: Fields of `BatchConfig`, in place of those of `config`.

    Returns:
        The loader of this process.

    Raises:
        ConfigError: A field is wrong (all errors are named at once); or a transform fails, or
            depends on more than its features and its seed, such as `tf.random.uniform`.
        DatasetNotFoundError: No such dataset, or it is not prepared.
        SplitError: No such split, or an empty one, or `filter` selects nothing.
        FeatureError: A feature cannot become an array, or a transform returns one without a
            value of known shape for each row; names both.
        LayoutError: The sharding cannot hold the batch, or rows that a transform mixes would be on
            different processes.
        RecordError: A file of the split is missing, or a record cannot be read for `filter`.
        AgreementError: The processes differ, or `build` failed on another one.
        UnsupportedError: The dataset is stored in a way that cannot be read by index.

    Example::

        loader = tjb.build("digits", global_batch_size=64, prepare=True)
        with iter(loader) as batches:
            for batch in batches:
                ...
    """
    checked, chosen = run_together(lambda: (config_from(config, fields), check_filter(filter)))
    check_agreement(config_facts(checked, chosen))
    hide_accelerators_from_tensorflow()
    builder = _open_builder(checked)
    run = run_together(
        lambda: open_run(checked, _place(checked, sharding, feature_shardings), builder, transforms)
    )
    selection = _select(run, chosen)
    loader = run_together(lambda: _make_loader(run, selection))
    check_agreement(data_facts(loader, run.split))
    _log_summary(loader, run.split.name)
    return loader


def _open_builder(config: BatchConfig) -> tfds.core.DatasetBuilder:
    """Open the dataset; prepare it where it is missing and the config says so."""
    builder = run_together(lambda: open_builder(config.dataset, config.data_dir))
    if not config.prepare:
        return builder
    run_in_turns(lambda: prepare(builder))
    return run_together(lambda: reopen(builder))


def _place(
    config: BatchConfig,
    sharding: NamedSharding | None,
    feature_shardings: Mapping[Any, NamedSharding] | None,
) -> Destination:
    sharding = data_sharding() if sharding is None else sharding
    layout = BatchLayout.from_sharding(sharding, config.global_batch_size, feature_shardings)
    return Destination(
        layout=layout,
        process_index=jax.process_index(),
        sharding=sharding,
        feature_shardings=dict(feature_shardings or {}),
    )


def _select(run: OpenRun, filter: FilterExamples | None) -> Selection | None:
    if filter is None:
        return None
    return run_in_turns(lambda: find_selection(filter, run.split, run.reader))


def _make_loader(run: OpenRun, selection: Selection | None) -> BatchLoader:
    """Return the loader, once it is certain that this process sees all files of the split."""
    loader = make_loader(run, selection)
    check_files_exist(run.split)
    return loader


def _log_summary(loader: BatchLoader, dataset: str) -> None:
    logging.info("tfjax_batches: %s\n%s", dataset, loader.describe())
    plan = loader.plan
    if plan.steps_per_epoch == 0:
        logging.warning(
            "tfjax_batches: steps_per_epoch is 0: a batch has %d rows, more than the %d examples "
            "of an epoch, so it holds examples of several epochs. A global_batch_size of at most "
            "%d fits in an epoch; remainder='pad' gives each epoch one padded batch.",
            plan.global_batch_size,
            plan.num_examples,
            plan.num_examples,
        )
    for count, when in (
        (plan.sources[0].epochs.left_out, f"of each epoch of {plan.num_examples}"),
        (plan.left_out_at_end, "at the end of the run"),
    ):
        if count:
            logging.warning(
                "tfjax_batches: %d examples are left out %s, since they do not fill a batch of %d; "
                "remainder='pad' delivers them.",
                count,
                when,
                loader.config.global_batch_size,
            )
