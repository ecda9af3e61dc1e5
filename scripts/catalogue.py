# SPDX-License-Identifier: Apache-2.0
"""Reads random examples of every dataset that TFDS knows, and compares them with TFDS's own.

    python scripts/catalogue.py [--builders REGEX] [--limit N] [--jobs 2]

Nothing is downloaded: of each builder only the features are used, of all configs or, where there
are many, of the first and the last. TFDS writes the examples. The loader reads them with the
default settings, and with the `keep_on_host` and `pad_to` that its errors advise. Exits with 1 if
it refuses what TFDS reads, or reads other values.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import enum
import multiprocessing
import os
import re
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator

import tensorflow_datasets as tfds
from catalogue_examples import (
    find_differences,
    read_as_advised,
    read_with_tfds,
    write_examples,
)

import tfjax_batches as tjb

MOST_CONFIGS = 3
"""Of a builder with more configs, the first and the last are read."""

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    # Builders that open an address fail at once.
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "NO_GCE_CHECK": "true",
    "GCS_RETRY_CONFIG_MAX_RETRIES": "0",
}


class Outcome(enum.Enum):
    """What became of a config of a builder."""

    NOT_CONSTRUCTED = "not constructed offline"
    TFDS_FAILS = "TFDS fails"
    EQUAL = "read equal"
    REFUSED = "refused"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a config of a builder, and its reason unless it was read."""

    name: str
    outcome: Outcome
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.name}: {self.reason}"


def check_builder(name: str) -> list[Result]:
    """Return the results of a builder's configs."""
    tfds.disable_progress_bar()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            configs = list_configs(name)
        except Exception as error:  # whatever the builder's module does
            return [Result(name=name, outcome=Outcome.NOT_CONSTRUCTED, reason=_describe(error))]
        return [check_config(config) for config in configs]


def list_configs(name: str) -> list[str]:
    """Return the configs to read, as `name/config`, or the name alone where there are none."""
    configs = [f"{name}/{config}" for config in tfds.builder_cls(name).builder_configs]
    return (configs if len(configs) <= MOST_CONFIGS else [configs[0], configs[-1]]) or [name]


def check_config(name: str) -> Result:
    """Return the result of a builder with a config."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            features = tfds.builder(name, data_dir=folder).info.features
        except Exception as error:
            return Result(name=name, outcome=Outcome.NOT_CONSTRUCTED, reason=_describe(error))
        outcome, reason = check_features(features, folder)
    return Result(name=name, outcome=outcome, reason=reason)


def check_features(features: tfds.features.FeaturesDict, folder: str) -> tuple[Outcome, str]:
    """Return whether examples of some features, written to a folder, are read equal; and why not.

    What TFDS writes and cannot read, the loader may refuse: with an error of its own, or with that
    of TFDS about a package that is not installed.
    """
    try:
        builder = write_examples(features, folder)
    except Exception as error:  # TFDS has few error classes
        return Outcome.TFDS_FAILS, f"to write: {_describe(error)}"
    expected, reason = None, ""
    try:
        expected = read_with_tfds(builder)
    except Exception as error:
        reason = f"to read: {_describe(error)}"
    for pad in (False, True):
        try:
            found, fields = read_as_advised(builder, pad=pad)
        except (tjb.BatchesError, ImportError) as error:
            if expected is not None:
                return Outcome.REFUSED, _describe(error)
            continue
        except Exception as error:
            return Outcome.FAILED, _describe(error)
        if expected is not None and (differences := find_differences(found, expected)):
            return Outcome.FAILED, f"{fields}: {'; '.join(differences)}"
    return (Outcome.EQUAL if expected is not None else Outcome.TFDS_FAILS), reason


def _describe(error: Exception) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", 400)


def run(names: list[str], jobs: int) -> Iterator[list[Result]]:
    """Yield the results of each builder, from several processes."""
    # TensorFlow's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, context) as pool:
        yield from pool.map(check_builder, names)


def print_summary(results: dict[str, list[Result]], seconds: float) -> None:
    """Print how many builders and configs had which outcome."""
    counts = Counter(result.outcome for configs in results.values() for result in configs)
    unknown = [
        name
        for name, configs in results.items()
        if all(result.outcome is Outcome.NOT_CONSTRUCTED for result in configs)
    ]
    print(f"{len(results)} builders, {counts.total()} configs, {seconds:.0f} s")
    print(f"{len(results) - len(unknown)} builders constructed offline; not {', '.join(unknown)}")
    for outcome in Outcome:
        print(f"{outcome.value}: {counts[outcome]} configs")


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--builders", default="", metavar="REGEX", help="only names that match")
    parser.add_argument("--limit", type=int, help="only so many builders")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    return parser.parse_args()


def main() -> None:
    """Check the builders; print what is not read, and a summary."""
    options = parse_arguments()
    start = time.monotonic()
    os.environ.update(ENVIRONMENT)
    names = tfds.list_builders(with_community_datasets=False)
    names = [name for name in names if re.search(options.builders, name)][: options.limit]
    results = {}
    for name, configs in zip(names, run(names, options.jobs), strict=True):
        results[name] = configs
        for result in configs:
            if result.outcome not in (Outcome.EQUAL, Outcome.NOT_CONSTRUCTED):
                print(result, flush=True)
    print_summary(results, time.monotonic() - start)
    bad = {Outcome.REFUSED, Outcome.FAILED}
    if any(result.outcome in bad for configs in results.values() for result in configs):
        sys.exit(1)


if __name__ == "__main__":
    main()
