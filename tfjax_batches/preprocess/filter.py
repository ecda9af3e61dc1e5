# SPDX-License-Identifier: Apache-2.0
"""A filter: a function of an example's features that says whether a run uses the example.

Here it is checked and traced, without any data. `pipeline.filter_scan` evaluates it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Name, Path, feature_hint, find_feature, path_text
from tfjax_batches.features.rows import Example, map_rows, to_example
from tfjax_batches.preprocess.argument_checks import check_function, check_names
from tfjax_batches.preprocess.purity import check_pure


@dataclasses.dataclass(frozen=True, slots=True)
class FilterExamples:
    """Selects the examples of a split for which a function returns True.

    `tjb.build(filter=…)` evaluates the function once for each example, before the run is planned,
    so counts, order, resuming and evaluation are exact. The function sees what TFDS decodes, before
    `pad_to`, `preprocess` and `transforms`, and whatever `features` of the config are.

    The result is saved under the name, beside the dataset or in the user's cache folder, and later
    runs over the same files use it. If the traced graph or the TensorFlow release changed, the
    split is scanned again and a warning is logged. Changes that a graph cannot show (the content
    of tables, Python code behind `tf.numpy_function(…, stateful=False)`) need a new name. A
    function must not read files or variables.

    Attributes:
        fn: `fn(*values)`, the features of one example in the order of `features`, as tensors
            without a batch dim; ragged for sequences of sequences. A TensorFlow function, which
            AutoGraph converts; returns a scalar bool, True to use the example.
        features: Names of the features that `fn` is given, such as `("label", "objects/bbox")`.
            Only these are parsed.
        name: Name of the saved result, 1 to 100 characters on one line.

    Raises:
        ConfigError: `fn` is not a function, `features` not a tuple of names, or `name` not a name.

    Example::

        small = tjb.FilterExamples(lambda label: label < 5, features=("label",), name="below-5")
        loader = tjb.build("digits", global_batch_size=64, filter=small)
    """

    fn: Callable[..., Any]
    features: tuple[Name, ...]
    name: str

    def __post_init__(self) -> None:
        check_function("FilterExamples", self.fn)
        check_names("features", self.features, least=1)
        object.__setattr__(self, "features", tuple(self.features))
        is_text = isinstance(self.name, str) and self.name.isprintable()
        if not is_text or not 1 <= len(self.name) <= 100:  # saved states hold it, and are small
            raise ConfigError(
                "name must have 1 to 100 characters on one line; got "
                f"{self.name!r}. Write name='below-5'."
            )


def check_filter(filter: Any) -> FilterExamples | None:
    """Return the argument `filter` of `build`; a bare function is an error."""
    if filter is None or isinstance(filter, FilterExamples):
        return filter
    raise ConfigError(
        f"filter must be a FilterExamples; got {filter!r}. Write filter=tjb.FilterExamples("
        "fn, features=('label',), name='below-5')."
    )


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TracedFilter:
    """A filter's function as a graph, its digest, and the specs of its features, in order."""

    function: Any
    specs: Mapping[Path, FeatureSpec]
    digest: str

    def __call__(self, features: Example) -> tf.Tensor:
        """Return bool[n], which of n examples the filter selects; fastest if n is static."""
        return map_rows(self._select_one, features, tf.TensorSpec([], tf.bool))

    def _select_one(self, row: Example) -> tf.Tensor:
        values = [to_example(row[path], spec) for path, spec in self.specs.items()]
        return tf.ensure_shape(self.function(*values), [])


def trace_filter(
    filter: FilterExamples, specs: Mapping[Path, FeatureSpec], dataset: str
) -> TracedFilter:
    """Return a filter as a graph, once it is checked, without any data.

    Args:
        filter: The filter.
        specs: Specs of the dataset's features, by path.
        dataset: The dataset's name, for messages.
    """
    chosen: dict[Path, FeatureSpec] = {}
    for name in filter.features:
        if (path := find_feature(name, specs)) is None:
            raise FeatureError(
                f"A filter must name features of {dataset}, each by its own name; {name!r} of "
                f"filter {filter.name!r} is not one. {feature_hint(name, specs)}"
            )
        chosen[path] = specs[path]
    first, second = (_trace(filter, chosen) for _ in range(2))
    digest = check_pure(f"filter {filter.name!r}", first, second)
    return TracedFilter(first, chosen, digest)


def _trace(filter: FilterExamples, specs: Mapping[Path, FeatureSpec]) -> Any:
    """Trace a filter's function for one example, and check what it returns."""
    signature = [spec.example_signature for spec in specs.values()]
    try:
        traced = tf.function(filter.fn).get_concrete_function(*signature)
    # Whatever the user's code raises.
    except Exception as error:
        given = ", ".join(f"{path_text(path)}: {spec.describe()}" for path, spec in specs.items())
        raise ConfigError(
            f"A filter must be a TensorFlow function of its features; filter {filter.name!r} was "
            f"given {given} and raised {type(error).__name__}: {error}\n"
            "Fix the function, or the features that it is given."
        ) from error
    found = traced.structured_outputs
    is_bool = isinstance(found, tf.Tensor) and found.dtype == tf.bool
    if not is_bool or found.shape.rank not in (0, None):
        raise ConfigError(
            f"A filter must return a scalar bool, True to use the example; filter {filter.name!r} "
            f"returns {found}. Compare with a value, or reduce with tf.reduce_any or tf.reduce_all."
        )
    return traced
