# SPDX-License-Identifier: Apache-2.0
"""What the package shows, what it imports, and what may import what."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfjax_batches as tjb

ROOT = Path(tjb.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# What a folder may import; a level may use those to its left.
LEVELS = (
    "errors",
    "config",
    "planning",
    "reading",
    "preprocess",
    "placing",
    "loader",
    "build",
)
# The grammar of specs stands with the ops, and knows none of them: a config checks its field by it.
GRAMMAR = "preprocess/spec.py"
FRAMEWORKS = {"jax", "tensorflow", "tensorflow_datasets", "optax"}


def imports_of(path: Path) -> set[str]:
    """Return the dotted names that a module imports, but for type checkers alone."""
    tree = ast.parse(path.read_text())
    typing_only = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    skipped = {id(child) for node in typing_only for child in ast.walk(node)}
    names = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_public_names_are_sorted_documented_and_there() -> None:
    assert tjb.__all__ == sorted(tjb.__all__)
    assert set(tjb.__all__) == set(tjb._MODULE_OF)
    for name in tjb.__all__:
        assert inspect.getdoc(getattr(tjb, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tjb.nothing


@pytest.mark.parametrize("name", tjb.__all__)
def test_public_name_tells_of_its_parameters_fields_and_methods(name: str) -> None:
    value = getattr(tjb, name)
    doc = inspect.getdoc(value) or ""
    if inspect.isfunction(value):
        named = list(inspect.signature(value).parameters)
        assert not named or "Args:" in doc
    elif dataclasses.is_dataclass(value):
        named = [f.name for f in dataclasses.fields(value) if not f.name.startswith("_")]
    else:
        named = []
    untold = [each for each in named if not re.search(rf"^ *\**{each}: ", doc, re.MULTILINE)]
    assert not untold
    for member, found in inspect.getmembers(value):
        if not member.startswith("_") and (
            inspect.isfunction(found) or isinstance(found, property)
        ):
            assert inspect.getdoc(found), member


def test_all_errors_are_public_and_also_builtins() -> None:
    from tfjax_batches import errors

    for name, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, errors.BatchesError):
            assert name in tjb.__all__
            assert name in (errors.__doc__ or "")
            assert error is errors.BatchesError or len(set(error.__mro__)) > 4


def test_importing_the_package_loads_no_framework() -> None:
    code = (
        "import sys, tfjax_batches as t; "
        "str(t.BatchLayout.simulate({'data': 2}, 'data', 4, 2).describe()); "
        "t.BatchConfig(dataset='digits', global_batch_size=8).checked(); "
        "print([m for m in ('jax', 'tensorflow', 'tensorflow_datasets') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_build_loads_no_package_that_only_some_need() -> None:
    """TFDS may load some of them, where they are installed; the library adds none."""
    code = (
        "import sys, jax, tensorflow, tensorflow_datasets; before = set(sys.modules); "
        "import tfjax_batches; tfjax_batches.build; "
        "roots = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(roots & {'IPython', 'matplotlib', 'optax', 'orbax', 'sklearn'}), len(roots))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.startswith("[] "), result.stderr


def test_build_stays_the_function_when_its_module_is_imported() -> None:
    import tfjax_batches.loading.building  # noqa: F401

    assert callable(tjb.build)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_nothing_private_and_only_its_level(path: Path) -> None:
    names = imports_of(path)
    assert not [name for name in names if "._src" in name or name.startswith("jax._src")]
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if path.relative_to(ROOT).as_posix() == GRAMMAR:
        part = "errors"
    frameworks = {name.split(".")[0] for name in names} & FRAMEWORKS
    if part in ("errors", "config", "planning"):
        assert not frameworks
    if part in ("reading", "preprocess"):
        assert "jax" not in frameworks
    if part == "placing":
        assert not frameworks - {"jax"}
    if part in LEVELS:
        above = LEVELS[LEVELS.index(part) + 1 :]
        grammar = f"tfjax_batches.{GRAMMAR.removesuffix('.py').replace('/', '.')}"
        used = {
            name.split(".")[1]
            for name in names
            if name.startswith("tfjax_batches.") and not name.startswith(grammar)
        }
        assert not used & set(above)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_its_licence(path: Path) -> None:
    assert path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n")


def test_readme_mentions_each_public_name_but_exceptions() -> None:
    readme = (ROOT.parent / "README.md").read_text()
    names = [name for name in tjb.__all__ if not name.endswith("Error")]
    assert not [name for name in names if not re.search(rf"\b{name}\b", readme)]
