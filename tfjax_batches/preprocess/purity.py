# SPDX-License-Identifier: Apache-2.0
"""Whether a traced function depends on its inputs alone, and a digest of what it computes."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import ConfigError

# TensorFlow's own `is_stateful` does not help: Assert, CheckNumerics and the look-up in a fixed
# table have it, which are harmless, and ops in nested functions cannot be asked for it.
_STATEFUL = re.compile(
    # Random values, except ops named Stateless….
    r"Random(?!IndexShuffle|.*(Grad|Dataset)).*|Stateful(?!PartitionedCall).*|Rng.*"
    r"|.*CandidateSampler|(Anonymous)?(Random)?SeedGenerator|NonDeterministicInts|Multinomial|TruncatedNormal"
    r"|ParameterizedTruncatedNormal|SampleDistortedBoundingBox(V2)?|Skipgram"
    # Time, and Python that may depend on more than its arguments.
    r"|Timestamp|PyFunc|EagerPyFunc"
    # Files, sessions, other processes and devices.
    r"|ReadFile|MatchingFiles|Write.*|.*Reader(V2)?|Reader.*|Restore.*|Save.*|Load.*|RecordInput"
    r"|.*(TFRecord|TextLine|FixedLengthRecord|CSV|Sql|LMDB|MatchingFiles|Snapshot|DataService"
    r"|Generator)Dataset(V\d)?|DatasetToTFRecord|MergeV2Checkpoints|DistributedSave"
    r"|FileSystemSetConfiguration|(Get|Delete)Session.*|.*SummaryWriter|.*Summary(Db|File)Writer"
    r"|ImportEvent|Collective.*|Nccl.*|Infeed.*|Outfeed.*|Send|Recv|RemoteCall"
    # Variables and other state that lasts from call to call.
    r"|Var(iable|HandleOp|IsInitializedOp).*|ReadVariable.*|Assign.*|Resource.*"
    r"|(Anonymous)?MutableHashTable.*|(Anonymous)?MutableDenseHashTable.*"
    r"|LookupTable(Insert|Remove|Import)V2|.*Iterator.*|.*Queue.*|(Unstage|Stage).*|Stack.*V2"
    r"|(Ordered)?Map(Stage|Unstage|Peek|Size|Clear|IncompleteSize).*|Barrier.*|.*MemoryCache"
    r"|.*Accumulator.*|.*Mutex.*|TemporaryVariable|(Add|Take)(Many)?Sparse.*Map|GlobalIterId"
)

# Attributes that differ between traces or machines and change no value.
_IGNORED_ATTRIBUTES = frozenset(
    {"token", "config_proto", "config", "executor_type", "parallel_iterations"}
)


def check_pure(label: str, first: Any, second: Any) -> str:
    """Return the digest of a function, after checking that it depends on its inputs alone.

    Two traces that differ show values of Python that became constants of the graph. Stateful ops
    are found by a deny-list, best effort: an op that is not on it passes.

    Args:
        label: The transform or filter, for messages.
        first: A trace of the function, a `tf.types.experimental.ConcreteFunction`.
        second: Another trace of the same function.

    Raises:
        ConfigError: The graph holds a stateful op, or the traces differ.
    """
    rule = f"Transforms and filters must depend only on their features and their seed; {label}"
    if ops := stateful_ops(first.graph):
        raise ConfigError(
            f"{rule} holds the stateful {', '.join(ops)}.{_fix_hint(ops)} Use "
            "tf.random.stateless_* with the seed of random=True (in a filter: one made of the "
            "features), and tf.numpy_function(…, stateful=False) for Python that depends only on "
            "its arguments."
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
    """Return the kinds of listed ops in a graph, whose results may differ from call to call.

    Ops of nested functions are included.
    """
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return sorted({node.op for node in nodes if _STATEFUL.fullmatch(node.op)})


def _fix_hint(ops: Iterable[str]) -> str:
    """Return how to replace variables and files: empty, or sentences with a space before each."""
    hint = ""
    if any(re.fullmatch(r"(Read|Assign|Resource)?.*Var.*Op|Variable.*|Assign.*", op) for op in ops):
        hint += " Pass the value of a variable as a constant: tf.constant(variable.numpy())."
    if any(re.fullmatch(r"ReadFile|MatchingFiles|Restore.*|Load.*", op) for op in ops):
        hint += " Read files before, and use their content as a constant."
    return hint


def digest_graph(concrete: Any) -> str:
    """Return 16 hex digits that are equal for two traces that compute the same.

    Args:
        concrete: A traced function, a `tf.types.experimental.ConcreteFunction`. The values of
            tensors that it captured are part of the digest.
    """
    definition = concrete.graph.as_graph_def()
    digests = _Digests(definition.library.function)
    names = _Names(node.name for node in definition.node)
    parts = [*digests.describe(definition.node, names)]
    parts += [names.number(output.name).encode() for output in concrete.outputs]
    parts += [
        tf.io.serialize_tensor(value).numpy()
        for value in concrete.captured_inputs
        if value.dtype not in (tf.resource, tf.variant)
    ]
    return _hash(parts).hex()[:16]


class _Names:
    """Numbers for the names in one graph, by their order.

    Names of nodes and arguments do not affect the result, only their order does. TensorFlow numbers
    the names of captured tensors differently in each trace.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}

    def number(self, reference: str) -> str:
        """Return a reference such as `^name` or `name:output:0`, with its name as a number."""
        name, *output = reference.removeprefix("^").split(":")
        control = "^" if reference.startswith("^") else ""
        return control + ":".join([str(self._numbers[name]), *output])


class _Digests:
    """Digests of the functions of a graph by name, each computed once."""

    def __init__(self, functions: Iterable[Any]) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._found: dict[str, bytes] = {}

    def describe(self, nodes: Iterable[Any], names: _Names) -> Iterator[bytes]:
        """Yield the content of nodes, with each function as its digest in place of its name."""
        for node in nodes:
            is_call = node.op in self._functions
            yield self._of_function(node.op) if is_call else node.op.encode()
            yield repr([names.number(reference) for reference in node.input]).encode()
            for name in sorted(set(node.attr) - _IGNORED_ATTRIBUTES):
                if name.startswith("_"):
                    continue
                attr = node.attr[name]
                called = [attr.func.name] if attr.HasField("func") else []
                called += [each.name for each in attr.list.func]
                yield name.encode()
                yield from map(self._of_function, called)
                if not called:
                    yield attr.SerializeToString(deterministic=True)

    def _of_function(self, name: str) -> bytes:
        if name not in self._found:
            function = self._functions.get(name)
            self._found[name] = _hash([] if function is None else self._describe_function(function))
        return self._found[name]

    def _describe_function(self, function: Any) -> Iterator[bytes]:
        arguments = function.signature.input_arg
        names = _Names(each.name for each in (*arguments, *function.node_def))
        yield repr([each.type for each in arguments]).encode()
        yield from self.describe(function.node_def, names)
        results = [function.ret[each.name] for each in function.signature.output_arg]
        yield repr([names.number(each) for each in results]).encode()
        yield repr(sorted(map(names.number, function.control_ret.values()))).encode()


def _hash(parts: Iterable[bytes]) -> bytes:
    """Return the digest of parts, which depends on where each part ends."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
