# SPDX-License-Identifier: Apache-2.0
"""Whether a traced function depends on its inputs alone, and a digest of what it computes."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import ConfigError

# A deny-list, best effort. TensorFlow's own `is_stateful` does not help: Assert, CheckNumerics and
# the look-up in a fixed table have it, and ops in nested functions cannot be asked for it.
_STATEFUL = re.compile(
    # Random values, except ops named Stateless….
    r"Random(?!IndexShuffle|.*(Grad|Dataset)).*|Stateful(?!PartitionedCall).*|Rng.*|.*SeedGenerator"
    r"|NonDeterministicInts|Multinomial|(Parameterized)?TruncatedNormal|SampleDistorted.*"
    # Time, and Python that may depend on more than its arguments.
    r"|Timestamp|(Eager)?PyFunc"
    # Files.
    r"|ReadFile|MatchingFiles|Write.*|Restore.*|Save.*"
    r"|.*(TFRecord|TextLine|FixedLengthRecord|CSV|Generator)Dataset(V\d)?"
    # Variables and other state that lasts from call to call.
    r"|Var(iable|HandleOp|IsInitializedOp).*|ReadVariable.*|Assign.*|Resource.*"
    r"|.*Mutable(Dense)?HashTable.*|LookupTable(Insert|Remove|Import)V2|.*Iterator.*|.*Queue.*"
)

# Attributes that differ between traces or machines and change no value.
_IGNORED_ATTRIBUTES = frozenset(
    {"token", "config_proto", "config", "executor_type", "parallel_iterations"}
)


def check_pure(label: str, first: Any, second: Any) -> str:
    """Return the digest of a function, after checking that it depends on its inputs alone.

    Args:
        label: The transform or filter, for messages.
        first: A trace of the function, a `tf.types.experimental.ConcreteFunction`.
        second: Another trace. Values of Python that became constants of the graph make it differ.
    """
    rule = f"Transforms and filters must depend only on their features and their seed; {label}"
    if ops := stateful_ops(first.graph):
        raise ConfigError(
            f"{rule} holds the stateful {', '.join(ops)}. Use tf.random.stateless_* with the seed "
            "of random=True (in a filter: one made of the features), tf.constant(variable.numpy()) "
            "for a variable, the content of a file that was read before, and "
            "tf.numpy_function(…, stateful=False) for Python that depends only on its arguments."
        )
    digest = digest_graph(first)
    if digest != digest_graph(second):
        raise ConfigError(
            f"{rule} gives another graph each time it is traced. Values of Python's or NumPy's "
            "random generators, of clocks and of counters become constants of the graph: use "
            "tf.random.stateless_* with the seed of random=True, or leave them out."
        )
    return digest


def stateful_ops(graph: tf.Graph) -> list[str]:
    """Return the kinds of listed ops in a graph and in its nested functions."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return sorted({node.op for node in nodes if _STATEFUL.fullmatch(node.op)})


def digest_graph(concrete: Any) -> str:
    """Return 16 hex digits that are equal for two traces that compute the same.

    Names of nodes and functions do not affect the result, and TensorFlow numbers them differently
    in each trace. A name counts as its place: of a node in its function, of a function among those
    called.
    """
    definition = concrete.graph.as_graph_def()
    functions = {each.signature.name: each for each in definition.library.function}
    called: list[str] = []
    results = [output.name for output in concrete.outputs]
    parts = [*_describe(definition.node, [], results, functions, called)]
    for name in called:  # grows as functions call others
        body = functions[name]
        arguments = [each.name for each in body.signature.input_arg]
        results = [body.ret[each.name] for each in body.signature.output_arg]
        parts += _describe(body.node_def, arguments, results, functions, called)
    parts += [
        tf.io.serialize_tensor(value).numpy()
        for value in concrete.captured_inputs
        if value.dtype not in (tf.resource, tf.variant)
    ]
    # A digest of digests depends on where each part ends.
    digests = [hashlib.sha256(part).digest() for part in parts]
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def _describe(
    nodes: Sequence[Any],
    arguments: Sequence[str],
    results: Sequence[str],
    functions: Mapping[str, Any],
    called: list[str],
) -> Iterator[bytes]:
    """Yield the content of nodes, with places as names; add the functions they call to `called`."""
    places = {name: place for place, name in enumerate([*arguments, *(n.name for n in nodes)])}

    def place_of(reference: str) -> list[Any]:
        """Return the place for `^name` or `name:output:0`, and what is around the name."""
        name, *output = reference.removeprefix("^").split(":")
        return [reference.startswith("^"), places[name], *output]

    def function_of(name: str) -> str:
        if name not in functions:
            return name
        if name not in called:
            called.append(name)
        return f"function {called.index(name)}"

    for node in nodes:
        yield repr([function_of(node.op), *map(place_of, node.input)]).encode()
        for key in sorted(set(node.attr) - _IGNORED_ATTRIBUTES):
            attr = node.attr[key]
            names = [each.name for each in (attr.func, *attr.list.func) if each.name]
            if not key.startswith("_"):
                yield repr([key, *map(function_of, names)]).encode()
                yield b"" if names else attr.SerializeToString(deterministic=True)
    yield repr([place_of(each) for each in results]).encode()
