"""The layout keeps its shape: who may import whom, how many modules lie at the root, and no circle among them.

Imports inside functions and those for type checkers only count like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "blizzard"

# The root's own modules, and what lies at the bottom: everybody may import these.
_BOTTOM = {"blizzard", "errors", "core", "text", "faults"}
_BELOW_RUN = {"native", "config", "schema", "source", "store", "tasks", "delta", "quarantine", "spark", "mirror"}
ALLOWED = {
    "text": set(),
    "faults": set(),
    "core": set(),
    "errors": {"core", "text"},
    "schema": set(),
    "store": set(),
    "native": set(),
    "mirror": {"store"},
    "source": {"store", "native"},
    "tasks": {"schema", "source", "store", "native"},
    "delta": {"schema", "store"},
    "quarantine": {"delta", "schema", "store", "source", "tasks"},
    "config": {"schema", "source", "store"},
    "spark": {"tasks", "config", "schema", "store"},
    "run": {"config", "schema"},
    "operate": {"run", *_BELOW_RUN},
    "report": {"run", *_BELOW_RUN},
    "service": {"run", "operate", "report", *_BELOW_RUN},
    "api": {"run", "config", "operate", "spark", "quarantine", "service", "store", "tasks"},
    "airflow": {"run", "config", "operate"},
    "cli": {"run", "operate", "report", "service", "api", *_BELOW_RUN},
    "testing": {"run", "operate", "report", "service", "api", *_BELOW_RUN},
    "blizzard": {"api"},
    "__main__": {"cli"},
}
# Bottom packages import less than others do.
_AT_THE_BOTTOM = {"text": set[str](), "faults": set[str](), "core": set[str](), "errors": {"core", "text"}}
# The modules of the spine that know what its ports really are, and what a configuration makes for them.
NAMES_THE_PARTS = {"blizzard.run.assemble", "blizzard.run.layouts"}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def imports_of(module: str) -> frozenset[str]:
    return frozenset(_imports(module))


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(modules()[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("blizzard"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "blizzard"


def test_the_root_has_at_most_five_modules() -> None:
    assert sorted(path.name for path in PACKAGE.glob("*.py")) == [
        "__init__.py",
        "__main__.py",
        "errors.py",
        "faults.py",
    ]


def test_every_package_is_known() -> None:
    assert {package_of(module) for module in modules()} - set(ALLOWED) == set()


@pytest.mark.parametrize("module", sorted(modules()))
def test_nobody_imports_what_lies_above(module: str) -> None:
    package = package_of(module)
    allowed = {package} | ALLOWED[package] | _AT_THE_BOTTOM.get(package, _BOTTOM)
    if module in NAMES_THE_PARTS:
        allowed |= _BELOW_RUN
    strangers = {name for name in imports_of(module) if package_of(name) not in allowed}
    # The package itself has the version, and nothing else that is there before anything is imported.
    assert strangers - {"blizzard"} == set()


def test_there_is_no_circle() -> None:
    """A module that is imported while it imports is half there; and whoever reads it has nowhere to begin."""
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join((*way[way.index(module) :], module))
        if module not in done:
            for name in sorted(imports_of(module) - {"blizzard"}):
                if name != module:
                    visit(name, (*way, module))
            done.add(module)

    for module in sorted(modules()):
        visit(module, ())


@pytest.mark.parametrize("package", sorted(p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()))
def test_every_package_says_what_it_is(package: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text()))
    assert text, package


def test_the_tests_lie_where_the_packages_do() -> None:
    """Beside them, those of whole systems, of jobs and documents; and what tests share."""
    of_systems = {"airflow", "cluster", "docs", "flows", "interop", "jobs", "producers", "regressions", "s3"}
    of_systems |= {"simulation"}
    folders = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and not p.name.startswith((".", "__"))}
    packages = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()} - {"testing"}
    assert folders - of_systems == packages - of_systems
    assert packages <= folders
