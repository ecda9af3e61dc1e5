# SPDX-License-Identifier: Apache-2.0
"""Which features of a batch stay on the host; whether a device can hold the others."""

from collections.abc import Callable, Collection, Iterable, Mapping

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Name, Path, choose_paths, path_text, shortest_name
from tfjax_batches.features.ragged import length_path


def choose_host_paths(
    specs: Mapping[Path, FeatureSpec], names: Iterable[Name], padded: Collection[Path], dataset: str
) -> frozenset[Path]:
    """Return the paths of the features that `keep_on_host` names.

    The length of a padded feature stays where the feature is.

    Args:
        specs: What batches hold, by path.
        names: `keep_on_host`; a dict means all features below it.
        padded: Paths that have a length.
        dataset: The dataset's name, for messages.

    Raises:
        FeatureError: A name is unknown.
    """
    host = choose_paths(specs, names, f"keep_on_host names features that batches of {dataset} hold")
    lengths = [length_path(path) for path in host if path in padded]
    return frozenset([*host, *(path for path in lengths if path in specs)])


def check_device_features(
    specs: Mapping[Path, FeatureSpec],
    host_paths: Collection[Path],
    dataset: str,
    parsed: Collection[Path],
    origin_of: Callable[[Path], str] = lambda path: "",
) -> None:
    """Raise one error for all features that no device can hold and that do not stay on the host.

    Args:
        specs: What batches hold, by path.
        host_paths: Those that stay on the host.
        dataset: The dataset's name, for messages.
        parsed: Paths that the config's `features` may name.
        origin_of: Returns the text that names the transform which gave a feature its spec; empty:
            it is as TFDS decodes it.

    Raises:
        FeatureError: Names each string and each feature without a fixed shape.
    """
    refused = {
        path: spec.describe() + origin_of(path)
        for path, spec in specs.items()
        if path not in host_paths and (spec.is_string or not spec.is_fixed)
    }
    if not refused:
        return
    listed = "\n".join(f"  {path_text(path)}: {form}" for path, form in refused.items())
    # `features` and `pad_to` name features as they are stored.
    stored = [path for path in refused if not origin_of(path)]
    good = tuple(shortest_name(path, parsed) for path in parsed if path not in refused)
    host = tuple(shortest_name(path, specs) for path in sorted({*host_paths, *refused}))
    numbers = [path for path in refused if not specs[path].is_string]
    lengths = {shortest_name(p, specs): 16 for p in numbers if p in stored and specs[p].is_paddable}
    ops = [_shaping_op(shortest_name(path, specs), specs[path]) for path in numbers]
    needs_shape = any(p not in stored and not op for p, op in zip(numbers, ops, strict=True))
    joined = "|".join(filter(None, ops))
    fixes = {
        f"leave them out: features={good!r}": bool(good) and stored == [*refused],
        f"leave them on the host: keep_on_host={host!r}": True,
        f"give them a length: pad_to={lengths!r}": bool(lengths),
        f"add ops that give them one shape (after transforms: tjb.op(…) of each): {joined}": bool(
            joined
        ),
        "set their shape in the transform, as in tf.ensure_shape(image, [8, 8, 3])": needs_shape,
    }
    raise FeatureError(
        f"A device holds features of fixed shape that are no strings; {dataset} has others:\n"
        f"{listed}\nTo fix it, {'; or '.join(fix for fix, works in fixes.items() if works)}."
    )


def _shaping_op(name: Name, spec: FeatureSpec) -> str:
    """Return an op that gives numbers of varying sizes one shape; empty: there is none."""
    if spec.is_paddable:
        return f"pad(16, key={name!r})"
    is_image = len(spec.shape) == 3 and spec.shape[2] is not None and not spec.nested_sequences
    return f"resize(224, key={name!r})" if is_image else ""
