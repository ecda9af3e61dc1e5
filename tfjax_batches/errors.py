# SPDX-License-Identifier: Apache-2.0
"""Every exception that this library raises on purpose.

Each is also the builtin that a caller would expect, so `except ValueError` works too::

    BatchesError
    ├── ConfigError           (ValueError)           a field or an argument that cannot be
    │   └── LayoutError       (ValueError)           a sharding that cannot hold the batch
    ├── DatasetNotFoundError  (FileNotFoundError)    no such dataset, or it is not prepared
    ├── SplitError            (ValueError)           a split that does not exist or is empty
    ├── FeatureError          (ValueError)           a feature that cannot become an array
    ├── RecordError           (OSError)              a file or record that is damaged
    ├── TransformError        (RuntimeError)         a transform that fails on an example
    ├── AgreementError        (RuntimeError)         the processes do not load the same thing
    ├── StateError            (ValueError)           a saved state that this run cannot go on from
    ├── ReplicaMismatchError  (ValueError)           replicas of one array that are not equal
    ├── IteratorClosedError   (RuntimeError)         `next` after `close`
    ├── MissingPackageError   (ImportError)          an optional package is not installed
    └── UnsupportedError      (NotImplementedError)  what this version cannot do

A message has three parts: the rule, the values with their names, and the mend.
"""

import difflib
from collections.abc import Iterable

_WORDS_SHOWN = 40


class BatchesError(Exception):
    """The base of all exceptions of this library."""


class ConfigError(BatchesError, ValueError):
    """A config field or an argument has a value that it cannot have."""


class LayoutError(ConfigError):
    """A sharding cannot hold the batch: its spec, its mesh or the batch size do not fit."""


class DatasetNotFoundError(BatchesError, FileNotFoundError):
    """There is no dataset of that name, or its files are not prepared."""


class SplitError(BatchesError, ValueError):
    """The split expression names nothing, is malformed, or holds no example."""


class FeatureError(BatchesError, ValueError):
    """A feature does not exist, or cannot become an array of known shape and dtype."""


class RecordError(BatchesError, OSError):
    """A data file is missing, damaged, or not what the dataset's metadata says."""


class TransformError(BatchesError, RuntimeError):
    """A transform of `preprocess` or `transforms` fails on an example that was read."""


class AgreementError(BatchesError, RuntimeError):
    """The processes of this run would not load parts of one and the same batch."""


class StateError(BatchesError, ValueError):
    """A saved state is malformed, or belongs to a run with other rows."""


class ReplicaMismatchError(BatchesError, ValueError):
    """Devices that must hold equal parts of a global array hold different ones."""


class IteratorClosedError(BatchesError, RuntimeError):
    """A batch was asked of an iterator that is closed."""


class MissingPackageError(BatchesError, ImportError):
    """Asked for something that takes a package which is not installed."""


class UnsupportedError(BatchesError, NotImplementedError):
    """Asked for something that makes sense and that this version cannot do."""


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return a sentence that names the known word nearest to `name`, or all of a few.

    Example:
        >>> nearest_hint("seeds", ["seed", "split"])
        "Did you mean 'seed'?"
        >>> nearest_hint("x", ["seed", "split"])
        "Known: 'seed', 'split'."
    """
    words = sorted(known)
    if close := difflib.get_close_matches(name, words, n=1):
        return f"Did you mean {close[0]!r}?"
    if len(words) > _WORDS_SHOWN:
        return f"None of the {len(words):,} known is like it."
    return f"Known: {', '.join(map(repr, words))}." if words else "None is known."
