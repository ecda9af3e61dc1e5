# SPDX-License-Identifier: Apache-2.0
"""Checks which module of a package imports which, by reading the source of all of them.

Rooms stand in the order of the data. A module may import from its own room, from an earlier room,
and from `errors`. Modules of one room may not import each other in a circle. No module reads a
private name of another, inside the package or outside of it.
"""

import ast
import dataclasses
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOMS = (
    "version",
    "errors",
    "text",
    "features",
    "planning",
    "config",
    "datasets",
    "reading",
    "preprocess",
    "pipeline",
    "placing",
    "showing",
    "loading",
    "checking",
    "launch",
    "commands",
    "testing",
    # The package itself offers all of the others, so nothing inside may import it.
    "__init__",
    "__main__",
)
FIRST_LEVEL = {"__init__", "__main__", "errors", "testing", "version"}
"""Modules of the first level; every other module is in the folder of its room."""

ONLY_ROOMS = {
    "features": {"errors"},
    "planning": {"errors", "text", "features"},
    "config": {"errors", "text", "features", "planning"},
}
"""Rooms that may import less than the order allows."""

UNKNOWN_ROOMS = {"preprocess": {"reading"}}
"""Earlier rooms that a room may not import: transforms know features, not files."""

JAX = {"jax", "jaxlib", "optax"}
TENSORFLOW = {"tensorflow", "tensorflow_datasets"}
WITHOUT = {
    "errors": JAX | TENSORFLOW,
    "text": JAX | TENSORFLOW,
    "planning": JAX | TENSORFLOW,
    "config": JAX | TENSORFLOW,
    "features": JAX,
    "reading": JAX,
    "preprocess": JAX,
    "pipeline": JAX,
    "placing": TENSORFLOW,
}
"""Frameworks that a room does not load, directly or through others; type checkers may see them."""

COMPUTED = "a computed name"
EXCEPTIONS = {
    ("__init__", COMPUTED): "resolves each public name when it is first used",
    ("commands", COMPUTED): "loads only the command that was asked for",
    ("launch.distributed", "os._exit"): "Python documents it; only its name looks private",
}
"""(module, what it imports or reads) → why it may. One that nothing needs is reported."""


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported name.

    Attributes:
        name: Absolute dotted name, or `COMPUTED`.
        line: Line number of the import.
        for_types: Whether only type checkers see it.
    """

    name: str
    line: int
    for_types: bool


def find_problems(package: Path, exceptions: Mapping[tuple[str, str], str]) -> list[str]:
    """Check all modules of a package against the rules of this file.

    Args:
        package: Folder of the package.
        exceptions: As `EXCEPTIONS`.

    Returns:
        One line of text for each problem.
    """
    paths = {_module_name(package, path): path for path in sorted(package.rglob("*.py"))}
    problems = []
    used = set()
    loads: dict[str, set[str]] = {}  # module → modules and other packages that it loads
    imports_within: dict[str, dict[str, set[str]]] = {}  # room → module → modules of that room
    for module, path in paths.items():
        room = _room_of(module)
        if room not in ROOMS or (path.parent == package) != (module in FIRST_LEVEL):
            problems.append(f"{module}: no known room or module of the first level")
            continue
        tree = ast.parse(path.read_text())
        found = [(name, line, f"reads private {name}") for name, line in _private_names(tree)]
        within = imports_within.setdefault(room, {}).setdefault(module, set())
        loads[module] = set(module.rpartition(".")[:1])  # its package is loaded first
        for each in _imports(tree, package.name, path.relative_to(package)):
            target = _target(each.name, package.name, paths)
            if target is None:
                problem = f"imports {COMPUTED}" if each.name == COMPUTED else ""
                found.append((each.name, each.line, problem))
            else:
                problem = _order_problem(room, target, paths)
                found.append((target, each.line, problem))
                if _room_of(target) == room and (module, target) not in exceptions:
                    within.add(target)
            if not each.for_types and not problem:
                loads[module].add(target or _room_of(each.name))
        for name, line, problem in found:
            if problem and (module, name) in exceptions:
                used.add((module, name))
            elif problem:
                problems.append(f"{module}:{line}: {problem}")
    problems += [
        f"{module}: loads {name}, which {_room_of(module)} does without"
        for module in loads
        for name in sorted(WITHOUT.get(_room_of(module), ()))
        if _loads(module, name, loads)
    ]
    for room, imports in imports_within.items():
        problems += [f"{room}: circle {circle}" for circle in _circles(imports)]
    unused = [key for key in exceptions if key not in used]
    return problems + [f"{module}: needs no exception for {name}" for module, name in unused]


def _module_name(package: Path, path: Path) -> str:
    """Return the dotted name inside the package, where a room's `__init__` is the room."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def _room_of(name: str) -> str:
    return name.partition(".")[0]


def _target(name: str, package: str, modules: Mapping[str, Path]) -> str | None:
    """Return the module that holds a name of the package; None for a name of another package."""
    root, _, inner = name.partition(".")
    if root != package:
        return None
    return inner if inner in modules else inner.rpartition(".")[0] or "__init__"


def _order_problem(room: str, target: str, modules: Mapping[str, Path]) -> str:
    """Return the rule that an import of `target` breaks, or an empty text."""
    other = _room_of(target)
    if target not in modules or other not in ROOMS:
        return f"imports {target}, which is no known module"
    if other in (room, "errors"):
        return ""
    if ROOMS.index(other) > ROOMS.index(room):
        return f"imports {target} of a later room"
    if other not in ONLY_ROOMS.get(room, ROOMS) or other in UNKNOWN_ROOMS.get(room, ()):
        return f"imports {target}, but {room} may not know {other}"
    return ""


def _loads(module: str, framework: str, loads: Mapping[str, set[str]]) -> bool:
    """Return whether a module loads a framework, other than through modules that do without it."""
    found: set[str] = set()
    waiting = {module}
    while waiting:
        found |= waiting
        loaded = {name for each in waiting for name in loads.get(each, ())} - found
        waiting = {name for name in loaded if framework not in WITHOUT.get(_room_of(name), ())}
    return framework in found


def _circles(imports: Mapping[str, set[str]]) -> list[str]:
    """Return one circle of modules that import each other, if there is any."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return [" → ".join(reversed(error.args[1]))]
    return []


def _imports(tree: ast.Module, package: str, path: Path) -> Iterator[Import]:
    """Yield all imports of a module, in any form and at any place.

    Args:
        tree: Source of the module.
        package: Name of the package.
        path: Of the module, inside the package.
    """
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
        for statement in block.body
        for node in ast.walk(statement)
    }
    functions = {"__import__", "import_module"} | {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "importlib"
        for alias in node.names
        if alias.name == "import_module" and alias.asname
    }
    here = [package, *path.parent.parts]  # what `.` means
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = _absolute("." * node.level + (node.module or ""), here)
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == package:
            names = [f"{package}.{node.attr}"]  # after `import package.module`
        elif isinstance(node, ast.Call) and _last_name(node.func) in functions:
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else 0
            names = [_absolute(name, here) if isinstance(name, str) else COMPUTED]
        else:
            continue
        for name in dict.fromkeys(names):
            yield Import(name, node.lineno, node in for_types)


def _absolute(name: str, here: list[str]) -> str:
    """Return the absolute form of a dotted name that may begin with dots."""
    inner = name.lstrip(".")
    level = len(name) - len(inner)
    parents = here[: len(here) - level + 1] if level else []
    return ".".join([*parents, inner] if inner else parents)


def _last_name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


def _private_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each private name of another module that a module reads, with the line number."""
    own = {
        node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node).removeprefix("self.")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for name in [module, *(alias.name for alias in node.names)]:
                if any(_is_private(part) for part in name.split(".")):
                    yield name, node.lineno
        elif isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and node.attr not in own:
                yield f"{owner}.{node.attr}", node.lineno


def _is_private(name: str) -> bool:
    """Return whether a name is private by convention; `__name__` and `_repr_html_` are not."""
    return name.startswith("_") and not name.endswith("_")
