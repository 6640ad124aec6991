"""Fingerprints of functions: they follow the code and the values that it uses, and nothing that changes by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark import cloudpickle

from blizzard.tasks.code import code_fingerprint, name_of, own_modules, text_fingerprint


def make(threshold: Any) -> Callable[[int], bool]:
    def over(value: int) -> bool:
        return bool(value > threshold)

    return over


class Over:
    def __init__(self, threshold: int) -> None:
        self.threshold = threshold

    def __call__(self, value: int) -> bool:
        return value > self.threshold

    def check(self, value: int) -> bool:
        return value > self.threshold


def compiled(text: str, **values: Any) -> Any:
    """As in a notebook: there is no text of it."""
    scope: dict[str, Any] = {"__name__": "__main__", **values}
    exec(text, scope)
    return scope["f"]


FINGERPRINTS = (text_fingerprint, code_fingerprint)


def test_values_that_a_function_was_made_with_count() -> None:
    for fingerprint in FINGERPRINTS:
        assert fingerprint(make(1)) == fingerprint(make(1))
        assert fingerprint(make(1)) != fingerprint(make(2))
        assert fingerprint(Over(1)) == fingerprint(Over(1))
        assert fingerprint(Over(1)) != fingerprint(Over(2))
        assert fingerprint(Over(1).check) != fingerprint(Over(2).check)
        assert fingerprint(Over(1).check) != fingerprint(Over(1))
        assert fingerprint(partial(make(1), 5)) != fingerprint(partial(make(1), 6))
        assert fingerprint(make({"b": 1, "a": 2})) == fingerprint(make({"a": 2, "b": 1}))
        assert fingerprint(make(frozenset("abc"))) == fingerprint(make(frozenset("cba")))


def test_a_function_without_a_text_is_known_by_its_code_and_constants() -> None:
    one = compiled("def f(x):\n    return x + 1")
    for fingerprint in FINGERPRINTS:
        assert fingerprint(one) == fingerprint(compiled("def f(x):\n    return x + 1  # the same"))
        assert fingerprint(one) != fingerprint(compiled("def f(x):\n    return x + 2"))
        assert fingerprint(one) != fingerprint(compiled("def f(x):\n    return x - 1"))
        inner = "def f(x):\n    return [y + {} for y in x]"
        assert fingerprint(compiled(inner.format(1))) != fingerprint(compiled(inner.format(2)))


def test_what_it_calls_and_the_plain_values_that_it_reads_count() -> None:
    text = "def helper(x):\n    return x {} 1\ndef f(x):\n    return helper(x) * LIMIT"
    for fingerprint in FINGERPRINTS:
        first = fingerprint(compiled(text.format("+"), LIMIT=1))
        assert first == fingerprint(compiled(text.format("+"), LIMIT=1))
        assert first != fingerprint(compiled(text.format("-"), LIMIT=1))
        assert first != fingerprint(compiled(text.format("+"), LIMIT=2))
    cached = "from functools import lru_cache\n@lru_cache(maxsize={})\n" + text
    for fingerprint in FINGERPRINTS:
        first = fingerprint(compiled(cached.format(1, "+"), LIMIT=1))
        assert first == fingerprint(compiled(cached.format(1, "+"), LIMIT=1))
        assert first != fingerprint(compiled(cached.format(1, "-"), LIMIT=1))


def test_functions_that_call_each_other_have_an_end() -> None:
    assert len(code_fingerprint(compiled("def f(x):\n    return g(x)\ndef g(x):\n    return f(x)"))) == 16


class Steps:
    """Holds itself, and its own methods."""

    def __init__(self, limit: int) -> None:
        self.steps, self.whole = [self.check], self
        self.limit = limit

    def check(self, value: int) -> bool:
        return all(step is not None for step in self.steps) and value > self.limit


def test_values_that_hold_themselves_have_an_end() -> None:
    items: list[Any] = [1]
    items.append(items)
    for fingerprint in FINGERPRINTS:
        assert fingerprint(Steps(1).check) == fingerprint(Steps(1).check) != fingerprint(Steps(2).check)
        assert len(fingerprint(make(items))) == 16
    assert code_fingerprint(cloudpickle.loads(cloudpickle.dumps(Steps(1).check))) == code_fingerprint(Steps(1).check)


def test_code_is_the_same_after_a_journey() -> None:
    text = "import math\ndef helper(x):\n    return math.floor(x) + LIMIT\ndef f(x):\n    return [helper(y) for y in x]"
    for function in (make(3), Over(3), Over(3).check, partial(make(3), 5), compiled(text, LIMIT=1, OTHER=5)):
        arrived = cloudpickle.loads(cloudpickle.dumps(function))
        assert code_fingerprint(arrived) == code_fingerprint(function), function


def test_modules_of_its_own_package_belong_to_a_function() -> None:
    names = [module.__name__ for module in own_modules(make(1))]
    assert __name__ in names
    assert not any(name.startswith(("blizzard", "pyspark")) for name in names)
    assert own_modules(compiled("def f(x):\n    return x")) == []


def test_a_function_has_a_name_for_messages() -> None:
    assert name_of(make) == f"{__name__}:make"
    assert name_of(Over(1)) == f"{__name__}:Over"
    assert name_of(partial(make, 1)) == f"{__name__}:partial"


def test_fingerprints_are_the_same_in_every_process() -> None:
    """Python hashes texts otherwise in each of them, and sets come in another order."""
    text = (
        "from blizzard.tasks.code import code_fingerprint, text_fingerprint\n"
        "KINDS = {'order', 'refund', 'return', 'gift'}\n"
        "def f(x):\n"
        "    return x in {'a', 'b', 'c'} or x in KINDS\n"
        "print(code_fingerprint(f), text_fingerprint(f))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
