"""Habits that the tests keep: a test that takes any exception for the one it expects proves nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
ANYTHING = {"Exception", "BaseException", "AssertionError"}


def too_wide(tree: ast.AST) -> Iterator[int]:
    """The lines that expect, or let pass, whatever comes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises" and node.args:
            named = node.args[0].elts if isinstance(node.args[0], ast.Tuple) else [node.args[0]]
            if {ast.unparse(name) for name in named} & ANYTHING:
                yield node.lineno
        if isinstance(node, ast.ExceptHandler):
            takes_all = node.type is None or ast.unparse(node.type) in ANYTHING
            if takes_all and all(isinstance(step, ast.Pass | ast.Continue | ast.Return) for step in node.body):
                yield node.lineno


def test_no_test_expects_any_exception() -> None:
    found = [f"{path.name}:{line}" for path in TESTS.rglob("*.py") for line in too_wide(ast.parse(path.read_text()))]
    assert found == []


def test_what_is_too_wide_is_found() -> None:
    wide = "with pytest.raises((Exception, ValueError)):\n    f()\ntry:\n    f()\nexcept Exception:\n    pass\n"
    assert sorted(too_wide(ast.parse(wide))) == [1, 5]
