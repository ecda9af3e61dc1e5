# SPDX-License-Identifier: Apache-2.0
"""What a traced graph does: whether it depends on more than its inputs, and a digest of it."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

# TensorFlow's own mark, `is_stateful`, is no help: it stands on Assert, CheckNumerics and the
# look-up in a fixed table, which are harmless, and cannot be asked of ops in nested functions.
_STATEFUL = re.compile(
    # Generators of random values: all but those named Stateless… .
    r"Random(?!IndexShuffle|.*(Grad|Dataset)).*|Stateful(?!PartitionedCall).*|Rng.*"
    r"|.*CandidateSampler|(Anonymous)?(Random)?SeedGenerator|NonDeterministicInts|Multinomial|TruncatedNormal"
    r"|ParameterizedTruncatedNormal|SampleDistortedBoundingBox(V2)?|Skipgram"
    # Time, and Python that may know more than its arguments.
    r"|Timestamp|PyFunc|EagerPyFunc"
    # Variables, and what else keeps something from call to call.
    r"|Var(iable|HandleOp|IsInitializedOp).*|ReadVariable.*|Assign.*|Resource.*"
    r"|(Anonymous)?MutableHashTable.*|(Anonymous)?MutableDenseHashTable.*"
    r"|LookupTable(Insert|Remove|Import)V2|Iterator.*|.*Queue.*|(Unstage|Stage).*|Stack.*V2"
)

# Attributes that differ from trace to trace, or from machine to machine, and change no value.
_UNTOLD = frozenset({"token", "config_proto", "config", "executor_type", "parallel_iterations"})


def stateful_ops(graph: tf.Graph) -> list[str]:
    """Return the kinds of op whose result may differ from call to call, nested ones included."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return sorted({node.op for node in nodes if _STATEFUL.fullmatch(node.op)})


def digest_graph(concrete: Any) -> str:
    """Return 16 hex digits that are equal where two traces compute the same.

    Args:
        concrete: A traced function, `tf.types.experimental.ConcreteFunction`. Values that it
            captured count too.
    """
    definition = concrete.graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}
    digest = hashlib.sha256()
    for text in _describe(definition.node, functions, {}):
        digest.update(text)
    for value in concrete.captured_inputs:
        if value.dtype not in (tf.resource, tf.variant):
            digest.update(tf.io.serialize_tensor(value).numpy())
    return digest.hexdigest()[:16]


def _describe(
    nodes: Iterable[Any], functions: dict[str, Any], digests: dict[str, bytes]
) -> Iterator[bytes]:
    """Yield what nodes are, with functions told by what they do: their names are counted on."""
    for node in nodes:
        yield f"{node.name} {node.op if node.op not in functions else ''} {node.input}\n".encode()
        for name in sorted(set(node.attr) - _UNTOLD):
            if name.startswith("_"):
                continue
            attr = node.attr[name]
            called = [attr.func.name] if attr.HasField("func") else []
            called += [each.name for each in attr.list.func]
            yield name.encode()
            if called:
                for each in called:
                    yield _function_digest(each, functions, digests)
            else:
                yield attr.SerializeToString(deterministic=True)
        if node.op in functions:
            yield _function_digest(node.op, functions, digests)


def _function_digest(name: str, functions: dict[str, Any], digests: dict[str, bytes]) -> bytes:
    if name not in digests:
        function = functions.get(name)
        digest = hashlib.sha256()
        if function is not None:
            for text in _describe(function.node_def, functions, digests):
                digest.update(text)
            digest.update(repr(sorted(function.ret.items())).encode())
        digests[name] = digest.digest()
    return digests[name]
