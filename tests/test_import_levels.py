# SPDX-License-Identifier: Apache-2.0
"""The check of import levels reports each kind of problem, on small packages made for it."""

from pathlib import Path

import pytest

from tests.import_levels import COMPUTED, find_problems

CLEAN = {
    "__init__": "",
    "errors": "class BatchesError(Exception): ...",
    "text/__init__": "",
    "text/values": "from tfjax_batches import errors",
    "features/paths": "",
    "planning/__init__": "",
    "planning/order": "import numpy as np\nfrom tfjax_batches.text.values import text",
    "planning/plan": "from . import order\nfrom ..errors import BatchesError",
    "reading/__init__": "",
    "reading/split": "import tensorflow as tf\nfrom tfjax_batches.planning import order, plan",
    "preprocess/ops/__init__": "from tfjax_batches.preprocess.ops.image import flip",
    "preprocess/ops/image": "import tensorflow as tf",
    "placing/buffer": "import jax\nimport tfjax_batches.planning.plan as plan",
    "loading/loader": "from tfjax_batches.reading.split import Split",
    "testing": "from tfjax_batches.loading.loader import BatchLoader",
    "__main__": "import tfjax_batches",
}


def problems_of(folder: Path, *exceptions: tuple[str, str], **changed: str) -> list[str]:
    """Check the clean package with changed modules; `__` in a keyword is a `/`."""
    for name, source in {**CLEAN, **changed}.items():
        path = folder / "tfjax_batches" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return find_problems(folder / "tfjax_batches", dict.fromkeys(exceptions, "a reason"))


def test_package_that_keeps_the_rules_has_no_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == []


@pytest.mark.parametrize(
    "module",
    ["helpers", "planning", "drawing/__init__", "drawing/figures", "drawing/deep/figures"],
)
def test_unknown_module_and_room_are_reported(tmp_path: Path, module: str) -> None:
    (problem,) = problems_of(tmp_path, **{module: ""})
    assert problem.startswith(module.removesuffix("/__init__").replace("/", "."))
    assert "no known room" in problem


@pytest.mark.parametrize(
    "source",
    [
        "import tfjax_batches.loading.loader as loader",
        "from tfjax_batches.loading.loader import BatchLoader",
        "from tfjax_batches.loading import loader",
        "from tfjax_batches.loading.loader import *",
        "from ..loading import loader",
        "from ..loading.loader import BatchLoader as Loader",
        "def f():\n    from tfjax_batches.loading.loader import BatchLoader",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..loading import loader",
        "import importlib\nimportlib.import_module('tfjax_batches.loading.loader')",
        "import importlib as i\ni.import_module('..loading.loader', __package__)",
        "from importlib import import_module as load\nload('tfjax_batches.loading.loader')",
        "__import__('tfjax_batches.loading.loader')",
    ],
)
def test_import_of_a_later_room_is_reported_in_every_form(tmp_path: Path, source: str) -> None:
    (problem,) = problems_of(tmp_path, **{"planning/order": source})
    line = 1 + source.count("\n")
    assert problem == f"planning.order:{line}: imports loading.loader of a later room"


@pytest.mark.parametrize(
    "source",
    [
        "import tfjax_batches",
        "import tfjax_batches as tjb",
        "import tfjax_batches.errors\ntfjax_batches.build",
        "from tfjax_batches import build",
        "from .. import build",
        "import importlib\nimportlib.import_module('tfjax_batches')",
    ],
)
def test_import_of_the_package_itself_is_reported_in_every_form(
    tmp_path: Path, source: str
) -> None:
    (problem,) = problems_of(tmp_path, **{"loading/loader": source})
    assert "imports __init__ of a later room" in problem


def test_import_for_its_effect_is_no_import_of_the_package_itself(tmp_path: Path) -> None:
    assert problems_of(tmp_path, **{"loading/loader": "import tfjax_batches.reading.split"}) == []


@pytest.mark.parametrize(
    ("module", "source", "words"),
    [
        ("text/values", "from tfjax_batches.planning import plan", "planning.plan of a later room"),
        ("errors", "from tfjax_batches.text import values", "text.values of a later room"),
        ("features/paths", "from ..text import values", "features may not know text"),
        ("preprocess/ops/image", "from ...reading import split", "may not know reading"),
        ("planning/plan", "from tfjax_batches.plans import x", "plans, which is no known module"),
        ("planning/plan", "import tfjax_batches.plans.x as x", "plans, which is no known module"),
        ("loading/loader", "import importlib\nimportlib.import_module(f'{__name__}.a')", COMPUTED),
        ("loading/loader", "__import__(name='x')", COMPUTED),
    ],
)
def test_import_that_a_room_may_not_have_is_reported(
    tmp_path: Path, module: str, source: str, words: str
) -> None:
    (problem,) = problems_of(tmp_path, **{module: source})
    assert problem.startswith(module.replace("/", "."))
    assert words in problem


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("planning/order", "import jax"),
        ("planning/order", "import jax.numpy as jnp"),
        ("planning/order", "from tensorflow import io"),
        ("text/values", "def f():\n    import tensorflow_datasets as tfds"),
        ("errors", "import importlib\nimportlib.import_module('jax.sharding')"),
        (
            "errors",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    x = 1\nelse:\n import jax",
        ),
        ("reading/split", "from jax.sharding import Mesh"),
        ("preprocess/ops/image", "import jax"),
        ("placing/buffer", "import tensorflow as tf"),
    ],
)
def test_framework_in_a_room_without_it_is_reported(
    tmp_path: Path, module: str, source: str
) -> None:
    problem = problems_of(tmp_path, **{module: source})[0]
    assert problem.startswith(f"{module.replace('/', '.')}: loads ")


def test_framework_is_reported_that_a_room_loads_through_another(tmp_path: Path) -> None:
    """Also through the package of a module, and not when only types are imported."""
    through = "from ..reading import split"
    (problem,) = problems_of(tmp_path, **{"placing/buffer": through})
    assert problem == "placing.buffer: loads tensorflow, which placing does without"
    for_types = f"import typing\nif typing.TYPE_CHECKING:\n    {through}"
    assert problems_of(tmp_path, **{"placing/buffer": for_types}) == []
    own = {"placing/buffer": "from ..reading import names", "reading/names": ""}
    assert problems_of(tmp_path, **own) == []
    (problem,) = problems_of(tmp_path, **own, **{"reading/__init__": "import tensorflow"})
    assert problem.startswith("placing.buffer: loads tensorflow")


def test_types_of_a_framework_may_be_imported_for_type_checkers(tmp_path: Path) -> None:
    source = "import typing\nif typing.TYPE_CHECKING:\n    from jax.sharding import Mesh"
    assert problems_of(tmp_path, **{"planning/order": source}) == []


@pytest.mark.parametrize(
    "source",
    [
        "from tfjax_batches.planning.plan import BatchPlan",
        "from tfjax_batches.planning import plan",
        "from . import plan",
        "def f():\n    from .plan import BatchPlan",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import plan",
        "import importlib\nimportlib.import_module('.plan', __package__)",
    ],
)
def test_circle_within_a_room_is_reported_in_every_form(tmp_path: Path, source: str) -> None:
    (problem,) = problems_of(tmp_path, **{"planning/order": source})
    assert problem.startswith("planning: circle planning.")
    assert {"planning.order", "planning.plan"} <= set(problem.split())


def test_circle_of_three_modules_through_their_room_is_reported(tmp_path: Path) -> None:
    (problem,) = problems_of(
        tmp_path,
        **{
            "planning/__init__": "from tfjax_batches.planning.plan import BatchPlan",
            "planning/order": "from tfjax_batches.planning import BatchPlan",
        },
    )
    assert {"planning", "planning.order", "planning.plan"} <= set(problem.split())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from tfjax_batches.planning.order import _permute", "_permute"),
        ("from ..planning.order import _permute as permute", "_permute"),
        ("from jax._src import sharding", "jax._src"),
        ("import tensorflow.python._pywrap as p", "tensorflow.python._pywrap"),
        ("def f(loader):\n    return loader._reader", "loader._reader"),
        ("class A:\n    def f(self):\n        return self.loader._reader", "self.loader._reader"),
        ("def f(loader):\n    loader._reader = 1", "loader._reader"),
    ],
)
def test_private_name_of_another_module_is_reported(tmp_path: Path, source: str, name: str) -> None:
    (problem,) = problems_of(tmp_path, **{"loading/loader": source})
    assert problem == f"loading.loader:{1 + source.count(chr(10))}: reads private {name}"


def test_private_names_of_the_module_itself_and_special_ones_are_no_problem(
    tmp_path: Path,
) -> None:
    source = (
        "from __future__ import annotations\n"
        "from tfjax_batches.text import values as _values\n"
        "class A:\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self._x = self._y\n"
        "    def __eq__(self, other):\n"
        "        return self._x == other._x and other.__class__ and other._repr_html_()\n"
    )
    assert problems_of(tmp_path, **{"loading/loader": source}) == []


def test_exception_covers_its_problem_alone_and_is_reported_when_not_needed(
    tmp_path: Path,
) -> None:
    exception = ("planning.order", "loading.loader")
    back = {"planning/order": "from ..loading import loader\nfrom ..reading import split"}
    (problem,) = problems_of(tmp_path, exception, **back)
    assert "imports reading.split" in problem
    (problem,) = problems_of(tmp_path, exception)
    assert problem == "planning.order: needs no exception for loading.loader"
