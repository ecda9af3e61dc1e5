# SPDX-License-Identifier: Apache-2.0
"""`build`: a config and a sharding become a loader, in step with all other processes."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import tensorflow_datasets as tfds
from absl import logging
from jax.sharding import NamedSharding

from tfjax_batches.config.batch_config import BatchConfig, Config, config_from, sources_of
from tfjax_batches.config.mixture_config import MixtureConfig, Source
from tfjax_batches.loading.accelerators import hide_accelerators_from_tensorflow
from tfjax_batches.loading.agreement import check_agreement, run_in_turns, run_together
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.open_source import naming_source
from tfjax_batches.loading.process_facts import config_facts, data_facts
from tfjax_batches.loading.wiring import (
    Destination,
    OpenRun,
    for_each_size,
    make_loader,
    open_run,
)
from tfjax_batches.placing.sharding import data_sharding
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.selection import Selection
from tfjax_batches.preprocess.filter import FilterExamples, check_filter
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.data_files import check_files_exist
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.prepare import prepare, reopen


def build(
    config: BatchConfig
    | MixtureConfig
    | Mapping[str, Any]
    | str
    | tfds.core.DatasetBuilder
    | None = None,
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
        config: A `BatchConfig` or `MixtureConfig`; or a dict or `ConfigDict` of the fields of one;
            or a dataset (name, folder or builder) with the other fields as keywords. None: all
            fields are keywords.
        sharding: Sharding of every feature. Its first spec entry names the data axes; its spec is
            cut to the rank of each feature. None: dim 0 over all devices.
        feature_shardings: Shardings by feature name, on the same mesh, in place of `sharding`.
        transforms: `MapExamples` and `MapBatches`, applied in order after the ops of `preprocess`,
            in a mixture those of each source. Each is traced and checked here, before any data is
            read.
        filter: Selects examples by a function of their features. It is evaluated once over the
            split; later runs find the result under its name. None: all examples. In a mixture each
            `Source` has its own.
        **fields: Fields of `BatchConfig` or `MixtureConfig`, in place of those of `config`.

    Returns:
        The loader of this process.

    Raises:
        ConfigError: A field is wrong (all errors are named at once); or a transform fails, or
            depends on more than its features and its seed, such as `tf.random.uniform`.
        DatasetNotFoundError: No such dataset, or it is not prepared.
        SplitError: No such split, or an empty one, or `filter` selects nothing.
        FeatureError: A feature cannot become an array, or a transform returns one without a
            value of known shape for each row; names both. Or the sources of a mixture differ in
            their features: shows how.
        LayoutError: The sharding cannot hold the batch, or rows that a transform mixes would be on
            different processes.
        RecordError: A file of the split is missing, or a record cannot be read for `filter`.
        AgreementError: The processes differ, or `build` failed on another one.
        UnsupportedError: The dataset is stored in a way that cannot be read by index; or a
            transform mixes rows of a mixture.

    Example::

        loader = tjb.build("digits", global_batch_size=64, prepare=True)
        with iter(loader) as batches:
            for batch in batches:
                ...
    """
    checked, sources = run_together(lambda: read_config(config, fields, filter))
    check_agreement(config_facts(checked, sources))
    hide_accelerators_from_tensorflow()
    opened = _open_builders(sources)
    run = run_together(
        lambda: open_run(checked, _place(checked, sharding, feature_shardings), opened, transforms)
    )
    selections = _select(run)
    loader = run_together(lambda: _make_loader(run, selections))
    check_agreement(data_facts(loader, run.sources))
    _log_summary(loader)
    return loader


def read_config(
    config: Any, fields: Mapping[str, Any], filter: FilterExamples | None
) -> tuple[Config, dict[str, Source]]:
    """Return the checked config, and what it reads by name; arguments as for `build`."""
    checked = config_from(config, fields)
    sources = sources_of(checked, filter)
    for source in sources.values():
        check_filter(source.filter)
    return checked, sources


def _open_builders(
    sources: Mapping[str, Source],
) -> dict[str, tuple[Source, tfds.core.DatasetBuilder]]:
    """Open the datasets; prepare those that are missing where their sources say so."""

    def open_all() -> dict[str, tuple[Source, tfds.core.DatasetBuilder]]:
        opened = {}
        for name, source in sources.items():
            with naming_source(name):
                opened[name] = source, open_builder(source.dataset, source.data_dir)
        return opened

    opened = run_together(open_all)
    wanted = [builder for source, builder in opened.values() if source.prepare]
    if not wanted:
        return opened

    def prepare_all() -> None:
        for builder in wanted:
            prepare(builder)

    run_in_turns(prepare_all)
    return run_together(
        lambda: {n: (s, reopen(b) if s.prepare else b) for n, (s, b) in opened.items()}
    )


def _place(
    config: Config,
    sharding: NamedSharding | None,
    feature_shardings: Mapping[Any, NamedSharding] | None,
) -> Destination:
    sharding = data_sharding() if sharding is None else sharding
    return Destination(
        layouts=for_each_size(
            config, lambda rows: BatchLayout.from_sharding(sharding, rows, feature_shardings)
        ),
        process_index=jax.process_index(),
        sharding=sharding,
        feature_shardings=dict(feature_shardings or {}),
    )


def _select(run: OpenRun) -> list[Selection | None]:
    if not any(each.source.filter for each in run.sources):
        return [None] * len(run.sources)

    def select_all() -> list[Selection | None]:
        selections = []
        for each in run.sources:
            with run.naming(each):
                selections.append(each.select())
        return selections

    return run_in_turns(select_all)


def _make_loader(run: OpenRun, selections: Sequence[Selection | None]) -> BatchLoader:
    """Return the loader, once it is certain that this process sees all files of the splits."""
    loader = make_loader(run, selections)
    for each in run.sources:
        with run.naming(each):
            check_files_exist(each.split)
    return loader


def _log_summary(loader: BatchLoader) -> None:
    logging.info("tfjax_batches: %s\n%s", ", ".join(loader.source_names), loader.describe())
    plan = loader.plan
    if isinstance(loader.config, MixtureConfig):
        return  # it ends where it ends, and no option would deliver its last rows
    takes_pad = len(plan.schedule.sizes) == 1
    if plan.steps_per_epoch == 0:
        logging.warning(
            "tfjax_batches: steps_per_epoch is 0: a batch has %d rows, more than the %d examples "
            "of an epoch, so it holds examples of several epochs. A global_batch_size of at most "
            "%d fits in an epoch%s.",
            plan.global_batch_size,
            plan.num_examples,
            plan.num_examples,
            "; remainder='pad' gives each epoch one padded batch" if takes_pad else "",
        )
    for count, when in (
        (plan.sources[0].epochs.left_out, f"of each epoch of {plan.num_examples}"),
        (plan.left_out_at_end, "at the end of the run"),
    ):
        if count:
            logging.warning(
                "tfjax_batches: %d examples are left out %s, since they do not fill a batch of "
                "%d%s.",
                count,
                when,
                plan.schedule.rows_at(plan.num_steps or 0),
                "; remainder='pad' delivers them" if takes_pad else "",
            )
