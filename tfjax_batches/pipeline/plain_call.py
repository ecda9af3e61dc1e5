# SPDX-License-Identifier: Apache-2.0
"""A call of a traced function with the values that it has inside of tf.data, bit for bit.

TensorFlow rewrites the graph of a function that is called directly: `x / 255` becomes
`x * (1 / 255)`, which differs in the last bit. tf.data runs the graph as it is.
"""

from typing import Any

import tensorflow as tf


def call_plainly(function: Any, *arguments: tf.Tensor) -> Any:
    """Return what a function returns, without rewriting its graph.

    Args:
        function: A `tf.types.experimental.ConcreteFunction` of tensors.
        *arguments: Its arguments.
    """
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    results = tf.raw_ops.StatefulPartitionedCall(
        args=[*arguments, *function.captured_inputs],
        Tout=[output.dtype for output in function.outputs],
        f=function,
        config_proto=config.SerializeToString(),
    )
    return tf.nest.pack_sequence_as(function.structured_outputs, results, expand_composites=True)
