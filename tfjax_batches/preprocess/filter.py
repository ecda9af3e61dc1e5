# SPDX-License-Identifier: Apache-2.0
"""A filter: which examples of a split a run is made of, by a function of their features.

It looks at each example once, before anything is planned, so that all that follows is as exact as
without it: counts, order, steps, resuming, evaluation.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError, nearest_hint
from tfjax_batches.features.rows import Example, map_rows, to_example
from tfjax_batches.preprocess.purity import digest_graph, fix_hint, stateful_ops
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.split import Split

# What TensorFlow adds to a message of an op that ran eagerly.
_NODE = re.compile(r"\{\{function_node \S*\}\} ?| ?\[Op:\w*\]( name: ?\S*)?|:$")
_NAME_CHARACTERS = 100  # it stands in saved states, which are small


@dataclasses.dataclass(frozen=True, slots=True)
class FilterExamples:
    """Keeps the examples of a split for which a function says so.

    The function is called once for each example, and what it says is kept under the name, beside
    the dataset or in the user's cache folder: later runs over the same files read nothing. So a
    name stands for one function. Where its graph is another than the one that the name was used
    for (or TensorFlow is another release), the examples are looked at again, with a warning. What
    a graph does not show asks for another name when it changes: the content of tables, and Python
    that `tf.numpy_function(…, stateful=False)` calls. Within a run neither may change: nothing can
    tell a table that changes from a fixed one. A function reads no files and no variables.

    `tjb.build(filter=…)` takes it, and applies it to what TFDS decodes: before `pad_to`,
    `preprocess` and `transforms`, and whatever `features` names. (An op of `preprocess` that is
    named `keep` keeps features; this keeps examples.)

    Attributes:
        fn: `fn(*values)`, the features of one example in the order of `features`, as tensors
            without a batch dim; ragged where sequences nest. A function of TensorFlow, converted
            by AutoGraph; returns a scalar bool, True to keep.
        features: What `fn` is given, by path, such as `("label", "objects/bbox")`. No other feature
            is parsed.
        name: What the result is kept under; 1 to 100 characters, on one line.

    Raises:
        ConfigError: One of them is no function, no tuple of paths, or no name.

    Example::

        keep = tjb.FilterExamples(lambda label: label < 5, features=("label",), name="below-5")
        loader = tjb.build("digits", global_batch_size=64, filter=keep)
    """

    fn: Callable[..., Any]
    features: tuple[str, ...]
    name: str

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise ConfigError(
                f"FilterExamples takes a function of TensorFlow; got {self.fn!r}. "
                "Give the function itself, not its result."
            )
        named = self.features
        is_tuple = isinstance(named, tuple | list) and all(isinstance(path, str) for path in named)
        if not is_tuple or not named:
            mend = f"Write ({named!r},)." if isinstance(named, str) else "Write ('label',)."
            raise ConfigError(
                f"FilterExamples.features is a tuple of feature paths; got {named!r}. {mend}"
            )
        object.__setattr__(self, "features", tuple(named))
        is_text = isinstance(self.name, str) and 1 <= len(self.name) <= _NAME_CHARACTERS
        if not is_text or not self.name.isprintable():  # a new line would break what is printed
            raise ConfigError(
                f"FilterExamples.name has 1 to {_NAME_CHARACTERS} characters on one line, which "
                f"the result is kept under; got {self.name!r}. Name it, such as 'below-5'."
            )


def check_filter(keep: Any) -> FilterExamples | None:
    """Return `keep`, if it is a filter or None.

    Raises:
        ConfigError: It is anything else, such as a bare function.
    """
    if keep is None or isinstance(keep, FilterExamples):
        return keep
    shown = getattr(keep, "__name__", repr(keep))
    raise ConfigError(
        "keep is a FilterExamples: a function, the features that it is given, and a name that its "
        f"result is kept under; got {shown}. Write filter=tjb.FilterExamples("
        f"{shown if callable(keep) else 'fn'}, features=('label',), name='below-5')."
    )


class Predicate:
    """Says of groups of records which are kept.

    Args:
        keep: The filter.
        source: The split, for its features.

    Attributes:
        decoder: What decodes the features that the filter names, and no other.
        digest: Of the function as it was traced.

    Raises:
        FeatureError: A feature does not exist, or is none but a dict of some.
        ConfigError: The function cannot be traced, returns no scalar bool, or depends on more than
            its features.
    """

    def __init__(self, keep: FilterExamples, source: Split) -> None:
        self._keep = keep
        known = Decoder(source.features, None, source.name).specs
        for path in keep.features:
            if path not in known:
                below = [leaf for leaf in known if leaf.startswith(f"{path}/")]
                hint = f"Name those below it: {below}." if below else nearest_hint(path, known)
                raise FeatureError(
                    f"FilterExamples.features names features of {source.name}, each by its own "
                    f"path; {path!r} of {keep.name!r} is none. {hint}"
                )
        self.decoder = Decoder(source.features, keep.features, source.name)
        self._function = tf.function(keep.fn)
        self.digest = self._check_pure()

    def __call__(self, records: tf.Tensor) -> tf.Tensor:
        """Return bool[n] of serialized examples string[n]; fastest where n is static."""
        values = self.decoder.decode(records)
        return map_rows(self._of_row, values, tf.TensorSpec([], tf.bool))

    def why_failing(self, record: npt.NDArray[np.object_]) -> str | None:
        """Return what the function raises on a record, object[1]; None: nothing that is known."""
        try:
            values = self.decoder.decode(tf.constant(record))
        except ValueError:  # run eagerly, `tf.map_fn` refuses a feature that holds nothing
            return None
        try:
            # Eagerly, TensorFlow tells the reason and nothing of a graph.
            self._keep.fn(*self._arguments({path: value[0] for path, value in values.items()}))
        # Whatever the user's code raises.
        except Exception as error:
            message = error.message if isinstance(error, tf.errors.OpError) else str(error)
            text = _NODE.sub("", f"{type(error).__name__}: {message}").strip()
            return text if text.endswith(".") else f"{text}."
        return None

    def _of_row(self, row: Example) -> tf.Tensor:
        return tf.ensure_shape(self._function(*self._arguments(row)), [])

    def _arguments(self, row: Example) -> list[tf.Tensor | tf.RaggedTensor]:
        """Return what the function is given of one example."""
        specs = self.decoder.specs
        return [to_example(row[path], specs[path]) for path in self._keep.features]

    def _check_pure(self) -> str:
        """Return the digest of the function's graph, once it is found to depend on features alone.

        Tables that do not change may be looked at, though no digest tells their content.
        """
        traced = self._trace()
        rule = (
            "FilterExamples.fn says the same of an example on every process and in every run; that "
            f"of {self._keep.name!r}"
        )
        if ops := stateful_ops(traced.graph):
            raise ConfigError(
                f"{rule} holds the stateful {', '.join(ops)}.{fix_hint(ops)} Use a split such as "
                "'train[:10%]', tf.random.stateless_uniform with a seed made of the features, and "
                "tf.numpy_function(…, stateful=False) for Python that depends on its arguments "
                "alone."
            )
        digest = digest_graph(traced)
        if digest != digest_graph(self._trace()):
            raise ConfigError(
                f"{rule} gives another graph each time it is traced. Values of Python's or NumPy's "
                "random generators, of clocks and counters become constants of the graph: leave "
                "them out of the function."
            )
        return digest

    def _trace(self) -> Any:
        """Trace the function for one example, and check what it returns."""
        name = self._keep.name
        signature = [self.decoder.specs[path].example_signature for path in self._keep.features]
        try:
            traced = tf.function(self._keep.fn).get_concrete_function(*signature)
        # Whatever the user's code raises.
        except Exception as error:
            raise ConfigError(
                f"FilterExamples.fn is a function of TensorFlow of {self._keep.features}, one "
                f"example's; that of {name!r} raised {type(error).__name__} when it was traced: "
                f"{error}\nMend the function, or the features that it is given."
            ) from error
        found = traced.structured_outputs
        is_tensor = isinstance(found, tf.Tensor)
        if not is_tensor or found.dtype != tf.bool or found.shape.rank not in (0, None):
            shown = f"{found.dtype.name} of shape {found.shape}" if is_tensor else repr(found)
            raise ConfigError(
                f"FilterExamples.fn returns a scalar bool, True to keep; that of {name!r} returns "
                f"{shown}. Compare with a value, or reduce with tf.reduce_any or tf.reduce_all."
            )
        return traced
