# SPDX-License-Identifier: Apache-2.0
"""What the package shows, what it imports, and what may import what."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfjax_batches as tjb
from tests.import_levels import EXCEPTIONS, find_problems
from tfjax_batches import errors

ROOT = Path(tjb.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def public_imports() -> dict[str, str]:
    """Return name → module of what type checkers take as public, `import x as x`."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom), ast.unparse(node)
        for alias in node.names:
            assert alias.asname == alias.name, ast.unparse(node)
            found[alias.name] = str(node.module).removeprefix("tfjax_batches.")
    return found


def test_public_names_are_sorted_documented_and_there() -> None:
    assert tjb.__all__ == sorted(tjb.__all__)
    assert set(tjb.__all__) == set(tjb._MODULE_OF) <= set(dir(tjb))
    assert public_imports() == tjb._MODULE_OF
    for name in tjb.__all__:
        assert inspect.getdoc(getattr(tjb, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tjb.nothing


@pytest.mark.parametrize("name", tjb.__all__)
def test_public_methods_and_properties_are_documented(name: str) -> None:
    for member, found in inspect.getmembers(getattr(tjb, name)):
        if not member.startswith("_") and (
            inspect.isfunction(found) or isinstance(found, property)
        ):
            assert inspect.getdoc(found), member


def is_also_a_builtin(error: type) -> bool:
    """Return whether an error is caught by who catches the fitting error of Python."""
    general = {BaseException, Exception, object}
    return any(base.__module__ == "builtins" and base not in general for base in error.__mro__)


def test_all_errors_are_public_and_also_builtins() -> None:
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, errors.BatchesError):
            assert name in tjb.__all__
            assert name in (errors.__doc__ or "")
            assert error is errors.BatchesError or is_also_a_builtin(error), name


def test_error_that_is_no_builtin_is_found() -> None:
    assert not is_also_a_builtin(type("OddError", (errors.BatchesError,), {}))
    assert is_also_a_builtin(type("GoodError", (errors.BatchesError, KeyError), {}))


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


def test_modules_import_only_what_their_room_may() -> None:
    assert find_problems(ROOT, EXCEPTIONS) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_its_licence(path: Path) -> None:
    assert path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n")


def test_readme_mentions_each_public_name_but_exceptions() -> None:
    readme = (ROOT.parent / "README.md").read_text()
    names = [name for name in tjb.__all__ if not name.endswith("Error")]
    assert not [name for name in names if not re.search(rf"\b{name}\b", readme)]
