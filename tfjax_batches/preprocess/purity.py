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
    # Files, sessions, other processes and devices.
    r"|ReadFile|MatchingFiles|Write.*|.*Reader(V2)?|Reader.*|Restore.*|Save.*|Load.*|RecordInput"
    r"|.*(TFRecord|TextLine|FixedLengthRecord|CSV|Sql|LMDB|MatchingFiles|Snapshot|DataService"
    r"|Generator)Dataset(V\d)?|DatasetToTFRecord|MergeV2Checkpoints|DistributedSave"
    r"|FileSystemSetConfiguration|(Get|Delete)Session.*|.*SummaryWriter|.*Summary(Db|File)Writer"
    r"|ImportEvent|Collective.*|Nccl.*|Infeed.*|Outfeed.*|Send|Recv|RemoteCall"
    # Variables, and what else keeps something from call to call.
    r"|Var(iable|HandleOp|IsInitializedOp).*|ReadVariable.*|Assign.*|Resource.*"
    r"|(Anonymous)?MutableHashTable.*|(Anonymous)?MutableDenseHashTable.*"
    r"|LookupTable(Insert|Remove|Import)V2|.*Iterator.*|.*Queue.*|(Unstage|BoundTransform).*|Stack.*V2"
    r"|(Ordered)?Map(BoundTransform|Unstage|Peek|Size|Clear|IncompleteSize).*|Barrier.*|.*MemoryCache"
    r"|.*Accumulator.*|.*Mutex.*|TemporaryVariable|(Add|Take)(Many)?Sparse.*Map|GlobalIterId"
)

# Attributes that differ from trace to trace, or from machine to machine, and change no value.
_UNTOLD = frozenset({"token", "config_proto", "config", "executor_type", "parallel_iterations"})


def stateful_ops(graph: tf.Graph) -> list[str]:
    """Return the kinds of op whose result may differ from call to call, nested ones included."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return sorted({node.op for node in nodes if _STATEFUL.fullmatch(node.op)})


def fix_hint(ops: Iterable[str]) -> str:
    """Return what to do about stateful ops that stand for something outside of the function.

    Empty, or sentences each after a space.
    """
    mend = ""
    if any(re.fullmatch(r"(Read|Assign|Resource)?.*Var.*Op|Variable.*|Assign.*", op) for op in ops):
        mend += " Pass the value of a variable as a constant: tf.constant(variable.numpy())."
    if any(re.fullmatch(r"ReadFile|MatchingFiles|Restore.*|Load.*", op) for op in ops):
        mend += " Read files before, and use what they hold as a constant."
    return mend


def digest_graph(concrete: Any) -> str:
    """Return 16 hex digits that are equal where two traces compute the same.

    Args:
        concrete: A traced function, `tf.types.experimental.ConcreteFunction`. Values that it
            captured count too.
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
    """Numbers for the names of one graph, in its order.

    TensorFlow counts on the names of what is captured, from trace to trace; the names of arguments
    and of nodes say nothing of what is computed, but for which they are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}

    def number(self, reference: str) -> str:
        """Return a reference, such as `^name` or `name:output:0`, with a number for the name."""
        name, *output = reference.removeprefix("^").split(":")
        control = "^" if reference.startswith("^") else ""
        return control + ":".join([str(self._numbers[name]), *output])


class _Digests:
    """Digests of the functions of a graph, by name; each is found once."""

    def __init__(self, functions: Iterable[Any]) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._found: dict[str, bytes] = {}

    def describe(self, nodes: Iterable[Any], names: _Names) -> Iterator[bytes]:
        """Yield what nodes are, with functions told by what they do: their names are counted on."""
        for node in nodes:
            is_call = node.op in self._functions
            yield self._of_function(node.op) if is_call else node.op.encode()
            yield repr([names.number(reference) for reference in node.input]).encode()
            for name in sorted(set(node.attr) - _UNTOLD):
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
    """Return the digest of parts; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
