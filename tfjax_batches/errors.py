# SPDX-License-Identifier: Apache-2.0
"""Every exception that this library raises on purpose.

Each is also the builtin that a caller would expect, so `except ValueError` works too::

    BatchesError
    ├── ConfigError           (ValueError)           a field or an argument has a wrong value
    │   └── LayoutError       (ValueError)           a sharding cannot hold the batch
    ├── DatasetNotFoundError  (FileNotFoundError)    no such dataset, or it is not prepared
    ├── SplitError            (ValueError)           a split does not exist or is empty
    ├── FeatureError          (ValueError)           a feature cannot become an array
    ├── RecordError           (OSError)              a file or record is damaged
    ├── TransformError        (RuntimeError)         a transform fails on an example
    ├── AgreementError        (RuntimeError)         the processes load different things
    ├── StateError            (ValueError)           a saved state does not fit this run
    ├── ReplicaMismatchError  (ValueError)           replicas of one array are not equal
    ├── IteratorClosedError   (RuntimeError)         `next` after `close`
    ├── MissingPackageError   (ImportError)          an optional package is not installed
    └── UnsupportedError      (NotImplementedError)  not supported by this version
"""

import difflib
from collections.abc import Iterable


class BatchesError(Exception):
    """The base of all exceptions of this library."""


class ConfigError(BatchesError, ValueError):
    """A config field or an argument has a value that is not allowed."""


class LayoutError(ConfigError):
    """A sharding cannot hold the batch: partition spec, mesh or batch size do not fit."""


class DatasetNotFoundError(BatchesError, FileNotFoundError):
    """There is no dataset of that name, or its files are not prepared."""


class SplitError(BatchesError, ValueError):
    """The split expression names nothing, is malformed, or holds no example."""


class FeatureError(BatchesError, ValueError):
    """A feature does not exist, or cannot become an array of known shape and dtype."""


class RecordError(BatchesError, OSError):
    """A data file is missing, is damaged, or does not match the dataset's metadata."""


class TransformError(BatchesError, RuntimeError):
    """A transform of `preprocess` or `transforms` fails on an example."""


class AgreementError(BatchesError, RuntimeError):
    """The processes of this run would not load parts of the same batch."""


class StateError(BatchesError, ValueError):
    """A saved state is malformed, or is that of a run with other rows."""


class ReplicaMismatchError(BatchesError, ValueError):
    """Devices that must hold equal parts of a global array hold different ones."""


class IteratorClosedError(BatchesError, RuntimeError):
    """`next` was called on a closed iterator."""


class MissingPackageError(BatchesError, ImportError):
    """An optional package that is needed here is not installed."""


class UnsupportedError(BatchesError, NotImplementedError):
    """This version does not support what was asked for."""


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return a sentence that names the nearest known word, or all known words if none is near.

    Example:
        >>> nearest_hint("seeds", ["seed", "split"])
        "Did you mean 'seed'?"
    """
    words = sorted(known)
    if close := difflib.get_close_matches(name, words, n=1):
        return f"Did you mean {close[0]!r}?"
    if len(words) > 40:  # such as all datasets of TFDS
        return f"None of the {len(words):,} known names is similar."
    return f"Known: {', '.join(map(repr, words)) or 'none'}."
