# SPDX-License-Identifier: Apache-2.0
"""The transforms of a run in their order, each checked against what comes before it.

Owns the place of a transform, which is part of its seeds, and its label in messages. A chain does
the same to an example in any group: functions of one example see one example, and groups are cut so
that rows which a transform mixes stay together.
"""

import dataclasses
import hashlib
import math
from collections.abc import Collection, Sequence

import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.features.paths import Name, Path, path_text
from tfjax_batches.features.rows import Example, GroupFeatures, map_rows, to_example, to_row
from tfjax_batches.preprocess.purity import check_pure
from tfjax_batches.preprocess.tracing import Specs, Traced, trace
from tfjax_batches.preprocess.transforms import MapBatches, MapExamples, Transform

# Times its row multiple, the rows of the batch that a transform is checked with. No feature has
# this size, so that a function which takes another dim for the rows is found.
_CHECKED_MULTIPLES = 7

_SEED: Path = ()  # no feature has such a path


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
    _checked: Traced

    def __call__(self, features: GroupFeatures, seeds: tf.Tensor) -> GroupFeatures:
        """Return the features [n, ...] of a group, given the chain's seeds, int32[n, places, 2]."""
        own = [] if self.seed_column is None else [seeds[:, self.seed_column]]
        if isinstance(self.transform, MapExamples):
            return self._apply_to_examples(features, own)
        rows = seeds.shape[0]
        traced = trace(self.transform, self.label, self.before, rows)
        if traced.specs != self.specs:
            changed = {
                path_text(path): spec.describe()
                for path, spec in traced.specs.items()
                if spec != self.specs.get(path)
            }
            raise FeatureError(
                "A transform returns the same features for any number of rows; for "
                f"{rows} rows {self.label} returns {changed}, unlike for others. "
                "Take sizes from the features and not from the batch."
            )
        result: GroupFeatures = traced.function(dict(features), *own)
        return result

    def _apply_to_examples(self, features: GroupFeatures, own: list[tf.Tensor]) -> GroupFeatures:
        def apply(row: Example) -> GroupFeatures:
            example = {path: to_example(row[path], spec) for path, spec in self.before.items()}
            result = self._checked.function(example, *([row[_SEED]] if own else []))
            return {path: to_row(result[path], spec) for path, spec in self.specs.items()}

        rows = {**features, _SEED: own[0]} if own else features
        signature = {path: spec.row_signature for path, spec in self.specs.items()}
        result: GroupFeatures = map_rows(apply, rows, signature)
        return result


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
        return tuple(p for p, each in enumerate(self.transforms) if each.transform.random)

    @property
    def unchanged_paths(self) -> list[Path]:
        """Paths of the features that leave the chain as they were decoded, under their path."""
        return [path for path, spec in self.specs.items() if spec is self.before.get(path)]

    def digest(self, places: Collection[int] | None = None) -> str:
        """Return 16 hex digits that are equal where the transforms at some places do the same."""
        chosen = [t for p, t in enumerate(self.transforms) if places is None or p in places]
        text = "\n".join(each.digest for each in chosen)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __call__(self, features: GroupFeatures, seeds: tf.Tensor) -> GroupFeatures:
        """Return the features [n, ...] of a group, given one seed for each of `seed_places`."""
        for transform in self.transforms:
            features = transform(features, seeds)
        return features

    def origin_of(self, path: Path) -> str:
        """Return which transform gave a feature its spec, for messages; empty: none did."""
        changed = [t for t in self.transforms if t.specs.get(path) != t.before.get(path)]
        return f", made by {changed[-1].label}" if changed else ""


def build_chain(transforms: Sequence[Transform], specs: Specs) -> Chain:
    """Return the chain of some transforms, each checked without any data.

    Args:
        transforms: In order.
        specs: Specs of the decoded features, by path.
    """
    bound: list[BoundTransform] = []
    before = specs
    for place, transform in enumerate(transforms):
        label = label_of(transform, place)
        rows = _CHECKED_MULTIPLES * find_row_multiple([transform])
        checked, again = (trace(transform, label, before, rows) for _ in range(2))
        earlier_seeds = sum(each.random for each in transforms[:place])
        bound.append(
            BoundTransform(
                transform=transform,
                label=label,
                before=before,
                specs=checked.specs,
                digest=check_pure(label, checked.function, again.function),
                seed_column=earlier_seeds if transform.random else None,
                _checked=checked,
            )
        )
        before = checked.specs
    return Chain(transforms=tuple(bound), before=specs)


def to_transforms(transforms: object) -> tuple[Transform, ...]:
    """Return the argument `transforms` of `build` as a tuple."""
    if isinstance(transforms, Sequence) and all(
        isinstance(each, MapExamples | MapBatches) for each in transforms
    ):
        return tuple(transforms)
    listed = transforms if isinstance(transforms, tuple | list) else [transforms]
    ops = [f"tjb.op({each!r})" for each in listed if isinstance(each, str)]
    raise ConfigError(
        f"transforms must be a list of MapExamples and MapBatches; got {transforms!r}. "
        f"Write transforms=[{ops[0] if ops else 'tjb.MapExamples(fn)'}]."
    )


def find_encoded(transforms: Sequence[Transform]) -> frozenset[Name]:
    """Return the names of the features that a transform decodes itself."""
    return frozenset(name for transform in transforms for name in transform.encoded)


def find_row_multiple(transforms: Sequence[Transform]) -> int:
    """Return the least number of rows that is a multiple of each transform's `row_multiple`."""
    return math.lcm(*(each.row_multiple for each in transforms if isinstance(each, MapBatches)))


def name_of(transform: Transform) -> str:
    """Return a transform's name, or that of its function."""
    if transform.name is not None:
        return transform.name
    return getattr(transform.fn, "__name__", type(transform.fn).__name__)


def label_of(transform: Transform, place: int) -> str:
    """Return a transform's place, counted from 1, and its name."""
    return f"{place + 1}. {name_of(transform)}"
