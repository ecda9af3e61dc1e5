# SPDX-License-Identifier: Apache-2.0
"""What a function of TensorFlow is made of, once it is traced: its ops, and a digest of them.

TensorFlow numbers the parts of a graph within a process, and keeps attributes in no order. Here
names give way to places and attributes are sorted, so that one function has one digest.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

Functions = Mapping[str, Any]
"""Name → FunctionDef, of the functions that a graph calls."""

# Ops that draw another number at each call; those named Stateless… do not.
_RANDOM_OP = re.compile(
    r"Random(?!IndexShuffle)|Multinomial|TruncatedNormal|ParameterizedTruncatedNormal|"
    r"Stateful(Random|Uniform|StandardNormal|TruncatedNormal)|NonDeterministicInts|Rng|"
    r"SampleDistortedBoundingBox|\w+CandidateSampler"
)
# Hints for running (those that begin with "_" too), and a number of this process.
_NOT_MEANING = ("config_proto", "executor_type", "token")


def random_ops(function: Any) -> list[str]:
    """Return the ops of a `tf.types.experimental.ConcreteFunction` that draw random numbers.

    Those of `tf.random.stateless_*`, which give what their seed says, are none of them.
    """
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return sorted({node.op for node in nodes if _RANDOM_OP.match(node.op)})


def digest_function(function: Any) -> str:
    """Return 16 characters that stand for what a ConcreteFunction computes.

    Constants and captured tensors are part of it. What lies outside of the graph is not: the
    content of variables and tables, and Python that `tf.numpy_function` calls.
    """
    graph = function.graph.as_graph_def()
    functions = {each.signature.name: each for each in graph.library.function}
    results = [tensor.name for tensor in function.graph.outputs]
    digest = hashlib.sha256(_digest_nodes(graph.node, (), results, functions))
    for tensor in function.captured_inputs:
        if tensor.dtype not in (tf.resource, tf.variant):
            digest.update(tf.io.serialize_tensor(tensor).numpy())
    return digest.hexdigest()[:16]


def _digest_nodes(
    nodes: Sequence[Any], arguments: Sequence[str], results: Iterable[str], functions: Functions
) -> bytes:
    """Return the digest of some nodes, whose inputs are each other or `arguments`."""
    names = [*arguments, *(node.name for node in nodes)]
    numbers = {name: str(number) for number, name in enumerate(names)}

    def place(source: str) -> str:
        # A node, one of its outputs ("node:0", "node:out:0"), or one to wait for ("^node").
        name, _, output = source.removeprefix("^").partition(":")
        return f"{source[:1] == '^'} {numbers[name]} {output}"

    digest = hashlib.sha256()
    for node in nodes:
        inputs = [place(source) for source in node.input]
        digest.update(repr((node.op, inputs, *_attributes(node, functions))).encode())
    digest.update(repr([place(source) for source in results]).encode())
    return digest.digest()


def _attributes(node: Any, functions: Functions) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of what a node's op is told beside its inputs, sorted."""
    for name in sorted(node.attr):
        if name.startswith("_") or name in _NOT_MEANING:
            continue
        value = node.attr[name]
        called = [value.func] if value.HasField("func") else value.list.func
        if called:
            yield name, b"".join(_digest_called(functions[f.name], functions) for f in called)
        else:
            yield name, value.SerializeToString(deterministic=True)


def _digest_called(function: Any, functions: Functions) -> bytes:
    arguments = [argument.name for argument in function.signature.input_arg]
    results = [function.ret[result.name] for result in function.signature.output_arg]
    return _digest_nodes(function.node_def, arguments, results, functions)
