# SPDX-License-Identifier: Apache-2.0
"""Whether all sources of a run make the same features, so that rows of any can share a batch."""

from collections.abc import Mapping

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path, path_text
from tfjax_batches.text.description import Table


def check_same_features(sources: Mapping[str, Mapping[Path, FeatureSpec]]) -> None:
    """Raise one error for all features that differ between sources.

    Args:
        sources: Specs of the features that each source makes, by path, by name of the source.

    Raises:
        FeatureError: Shows, for each feature that differs, its forms and the sources of each.
    """
    paths = sorted({path for specs in sources.values() for path in specs})
    lines: list[tuple[str, ...]] = []
    for path in paths:
        forms: dict[str, list[str]] = {}
        for name, specs in sources.items():
            form = specs[path].describe() if path in specs else "none"
            forms.setdefault(form, []).append(name)
        if len({specs.get(path) for specs in sources.values()}) > 1:
            lines += [(path_text(path), form, ", ".join(names)) for form, names in forms.items()]
    if lines:
        table = Table(tuple(lines), ("feature", "form", "sources"))
        raise FeatureError(
            "Rows of all sources of a mixture share arrays, so the sources must return features of "
            "the same names, shapes and dtypes; these differ:\n"
            + "\n".join(table.to_lines())
            + "\nMake them equal with features, pad_to or preprocess of these sources, such as "
            "preprocess='keep(…)', 'cast(…)' or 'resize(…)', or with transforms."
        )
