# SPDX-License-Identifier: Apache-2.0
"""Python functions that datasets call, and that go with the dataset.

TensorFlow keeps every function given to `tf.numpy_function` until the process ends, with all that
the function holds: here a reader with its open files. So TensorFlow is given a `WeakCall`, and the
function itself lives as long as somebody else holds it, such as a dataset by `hold_while_alive`.
"""

import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf


class WeakCall:
    """Calls a function that it does not keep alive.

    Args:
        function: Any callable. A function made inside another is held by the frame of that one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = weakref.ref(function)

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns.

        Raises:
            StopIteration: The function is gone. TensorFlow prints no warning for this error; the
                threads of an iterator may still ask for data while the iterator is deleted.
        """
        if (function := self._function()) is None:
            raise StopIteration(
                "A dataset must be kept as long as it is read; the one of this function was "
                "deleted. Keep it, or one made from it, in a variable."
            )
        return function(*arguments)


def hold_while_alive(dataset: tf.data.Dataset, function: Callable[..., Any]) -> None:
    """Keep a function alive as long as a dataset is, which its iterators keep alive."""
    # What it calls with the function, at the dataset's end, does nothing.
    weakref.finalize(dataset, id, function).atexit = False
