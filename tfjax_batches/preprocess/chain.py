# SPDX-License-Identifier: Apache-2.0
"""The transforms of a run in their order, each checked against what comes before it.

Owns the place of a transform, which is part of its seeds, and its label in messages. A chain does
the same to an example in any group: functions of one example see one example, and groups are cut so
that rows which a transform mixes stay together.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.rows import Example, GroupFeatures, map_rows, to_example, to_row
from tfjax_batches.preprocess.purity import check_pure
from tfjax_batches.preprocess.tracing import Specs, Traced, trace
from tfjax_batches.preprocess.transforms import MapBatches, MapExamples, Transform

# Times its row multiple, the rows of the batch that a transform is checked with. No feature has
# this size, so that a function which takes another dim for the rows is found.
_CHECKED_MULTIPLES = 7

_SEED = "/seed"  # no feature has such a path


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BoundTransform:
    """One transform at its place in a chain.

    Attributes:
        transform: The transform.
        label: Place, from 1, and name: "2. flip_lr".
        before: Specs of the features that it is given.
        specs: Specs of the features that it returns.
        digest: Digest of its graph.
        seed_column: Its column among the seeds of the chain. None: it takes no seed.
    """

    transform: Transform
    label: str
    before: Specs
    specs: Specs
    digest: str
    seed_column: int | None
    _example: Traced | None

    def __call__(self, features: GroupFeatures, seeds: tf.Tensor) -> GroupFeatures:
        """Return the features of a group after the transform.

        Args:
            features: Values [n, ...] by path.
            seeds: int32[n, places, 2], those of the whole chain.
        """
        own = None if self.seed_column is None else seeds[:, self.seed_column]
        # For profiles; a label may hold what a scope may not.
        with tf.name_scope(f"transform_{self.label.split('.')[0]}"):
            if self._example is None:
                return self._apply_to_batch(features, own, seeds)
            return self._apply_to_examples(self._example, features, own)

    def _apply_to_examples(
        self, traced: Traced, features: GroupFeatures, seeds: tf.Tensor | None
    ) -> GroupFeatures:
        def apply(row: Example) -> GroupFeatures:
            example = {path: to_example(row[path], spec) for path, spec in self.before.items()}
            seed = [] if seeds is None else [row[_SEED]]
            result = traced.function(example, *seed)
            return {path: to_row(result[path], spec) for path, spec in traced.specs.items()}

        rows = features if seeds is None else {**features, _SEED: seeds}
        signature = {path: spec.row_signature for path, spec in traced.specs.items()}
        result: GroupFeatures = map_rows(apply, rows, signature)
        return result

    def _apply_to_batch(
        self, features: GroupFeatures, own: tf.Tensor | None, seeds: tf.Tensor
    ) -> GroupFeatures:
        rows = seeds.shape[0]
        traced = self._trace_batch(rows)
        result: GroupFeatures = traced.function(dict(features), *([] if own is None else [own]))
        if rows is None:
            result = {path: self._check_rows(path, v, seeds) for path, v in result.items()}
        return result

    def _trace_batch(self, rows: int | None) -> Traced:
        traced = trace(self.transform, self.label, self.before, rows)
        for path in {**self.specs, **traced.specs}:
            was, now = self.specs.get(path), traced.specs.get(path)
            if was != now:
                raise FeatureError(
                    "A transform returns the same features for any number of rows; "
                    f"{self.label} gives {path!r} as {now and now.describe()} for {rows} rows, "
                    f"and as {was and was.describe()} for others. Take sizes from the features "
                    "and not from the batch."
                )
        return traced

    def _check_rows(
        self, path: str, value: tf.Tensor | tf.RaggedTensor, seeds: tf.Tensor
    ) -> tf.Tensor | tf.RaggedTensor:
        """Return the value; running it fails where it has not as many rows as the group."""
        if isinstance(value, tf.RaggedTensor):
            count = value.nrows()
        else:
            count = tf.shape(value, out_type=tf.int64)[0]
        message = f"{self.label} changes the number of rows of {path!r}."
        check = tf.debugging.assert_equal(count, tf.shape(seeds, out_type=tf.int64)[0], message)
        with tf.control_dependencies([check]):
            return tf.identity(value)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """All transforms of a run.

    Attributes:
        transforms: One for each transform, in order.
        before: Specs of the decoded features.
    """

    transforms: tuple[BoundTransform, ...]
    before: Specs

    @property
    def specs(self) -> Specs:
        """`FeatureSpec` of each feature that the chain returns, by path."""
        return self.transforms[-1].specs if self.transforms else self.before

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each transform."""
        return tuple(name_of(each.transform) for each in self.transforms)

    @property
    def labels(self) -> tuple[str, ...]:
        """Place and name of each transform."""
        return tuple(each.label for each in self.transforms)

    @property
    def maps_each_example(self) -> bool:
        """Whether it works on one example after the other; decoding an image does, too."""
        transforms = [each.transform for each in self.transforms]
        return any(isinstance(each, MapExamples) or each.encoded for each in transforms)

    @property
    def row_multiple(self) -> int:
        """Rows of the global batch that belong in one group: from each multiple to the next."""
        return find_row_multiple([each.transform for each in self.transforms])

    @property
    def seed_places(self) -> tuple[int, ...]:
        """Places of the transforms that take a seed."""
        return tuple(p for p, each in enumerate(self.transforms) if each.seed_column is not None)

    @property
    def unchanged_paths(self) -> list[str]:
        """Paths of the features that leave the chain as they were decoded, under their path."""
        # Tracing gives a value that a function only passes on the spec object that it had.
        return [path for path, spec in self.specs.items() if spec is self.before.get(path)]

    def digest(self, places: Collection[int] | None = None) -> str:
        """Return 16 hex digits that are equal where the transforms do the same.

        Args:
            places: Places of the transforms that count, from 0. None: all.
        """
        chosen = [t for p, t in enumerate(self.transforms) if places is None or p in places]
        text = "\n".join(f"{name_of(each.transform)} {each.digest}" for each in chosen)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __call__(self, features: GroupFeatures, seeds: tf.Tensor) -> GroupFeatures:
        """Return the features of a group after all transforms.

        Args:
            features: Values [n, ...] by path.
            seeds: int32[n, places, 2], one for each of `seed_places`.
        """
        for transform in self.transforms:
            features = transform(features, seeds)
        return features

    def origin_of(self, path: str) -> str:
        """Return which transform gave a feature its spec, for messages; empty: none did."""
        label = ""
        for each in self.transforms:
            if each.specs.get(path) != each.before.get(path):
                label = each.label
        return f", made by {label}" if label else ""


def build_chain(transforms: Sequence[Transform], specs: Mapping[str, FeatureSpec]) -> Chain:
    """Return the chain of some transforms, each checked without any data.

    Args:
        transforms: In order.
        specs: Specs of the decoded features, by path.

    Raises:
        ConfigError: One is no transform, fails, or depends on more than features and seed.
        FeatureError: One does not return features of known shape with the rows that it was given.
    """
    bound: list[BoundTransform] = []
    before: Specs = specs
    random = 0
    for place, transform in enumerate(transforms):
        label = label_of(transform, place)
        rows = _CHECKED_MULTIPLES * getattr(transform, "row_multiple", 1)
        traced, again = (trace(transform, label, before, rows) for _ in range(2))
        bound.append(
            BoundTransform(
                transform=transform,
                label=label,
                before=before,
                specs=traced.specs,
                digest=check_pure(label, traced.function, again.function),
                seed_column=random if transform.random else None,
                _example=traced if isinstance(transform, MapExamples) else None,
            )
        )
        random += transform.random
        before = traced.specs
    return Chain(transforms=tuple(bound), before=specs)


def check_transforms(transforms: object) -> tuple[Transform, ...]:
    """Return the argument `transforms` of `build` as a tuple.

    Raises:
        ConfigError: It is no sequence of transforms.
    """
    fix = "Write transforms=[tjb.MapExamples(fn)]."
    if not isinstance(transforms, Sequence) or isinstance(transforms, str):
        raise ConfigError(f"transforms is a list of transforms; got {transforms!r}. {fix}")
    for place, transform in enumerate(transforms):
        if not isinstance(transform, MapExamples | MapBatches):
            raise ConfigError(
                "A transform is a MapExamples or a MapBatches; "
                f"transforms[{place}] is {transform!r}. {fix}"
            )
    return tuple(transforms)


def find_encoded(transforms: Sequence[Transform]) -> frozenset[str]:
    """Return the paths of the features that a transform decodes itself."""
    return frozenset(path for transform in transforms for path in transform.encoded)


def find_row_multiple(transforms: Sequence[Transform]) -> int:
    """Return the least number of rows that is a multiple of each transform's `row_multiple`."""
    return math.lcm(*(each.row_multiple for each in transforms if isinstance(each, MapBatches)))


def name_of(transform: Transform) -> str:
    """Return a transform's name, or that of its function."""
    if transform.name is not None:
        return transform.name
    fn = transform.fn
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def label_of(transform: Transform, place: int) -> str:
    """Return a transform's place, counted from 1, and its name."""
    return f"{place + 1}. {name_of(transform)}"
