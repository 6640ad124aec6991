"""Fingerprints of a Python function, and the modules that belong to it.

Only the function's own package is looked into. Of a function of another package its own code counts, and of an object
that is neither plain nor a function, its type.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_PLAIN = (str, bytes, int, float, bool, complex, type(None), type(...))
_MAIN = "__main__"
# What `lru_cache` and `cache` make of a function.
CACHED: Any = type(lru_cache(len))


def name_of(function: Any) -> str:
    """For a message: `module:function`."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{_module_of(function)}:{name}"


def own_modules(function: Any) -> list[ModuleType]:
    """The function's module, and those of the same package that it uses. None of them for one that was made in a
    notebook or a script."""
    first = sys.modules.get(_module_of(function))
    if first is None or first.__name__ == _MAIN:
        return []
    root = _root(first.__name__)
    found, left = {first.__name__: first}, [first]
    while left:
        for name in sorted(_names_in(left.pop(), root) - found.keys()):
            if (module := sys.modules.get(name)) is not None:
                found[name] = module
                left.append(module)
    return [found[name] for name in sorted(found)]


def _names_in(module: ModuleType, root: str) -> set[str]:
    """The modules of the package that this one has something of."""
    values = list(vars(module).values())
    names = (v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", None) for v in values)
    return {name for name in names if isinstance(name, str) and _root(name) == root}


def text_fingerprint(function: Any) -> str:
    """Changes with the text of the modules that belong to the function, with its name, and with the plain values that
    it uses. Where there is no text, with its bytecode."""
    return _digest(_Walk(_root(_module_of(function)), by_text=True).parts(function))


def code_fingerprint(function: Any) -> str:
    """The same after the function was sent to another process, unless it uses other code there."""
    return _digest(_Walk(_root(_module_of(function)), by_text=False).parts(function))


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]


class _Walk:
    def __init__(self, root: str, *, by_text: bool) -> None:
        self._root, self._by_text = root, by_text
        self._seen: set[int] = set()
        self._around: set[int] = set()  # the values that it is inside of

    def parts(self, value: Any) -> Iterator[str]:
        if type(value) in _PLAIN:
            yield repr(value)
        elif id(value) in self._around:
            yield "what is around it"  # an object may hold itself, or its own methods
        else:
            self._around.add(id(value))
            yield from self._parts(value)
            self._around.remove(id(value))

    def _parts(self, value: Any) -> Iterator[str]:
        match value:
            case partial():
                yield "partial"
                yield from self.parts((value.func, value.args, value.keywords))
            case MethodType():
                yield from self.parts((value.__func__, _state(value.__self__)))
            case FunctionType():
                yield from self._function(value)
            case _ if isinstance(value, CACHED):
                yield from self.parts((value.__wrapped__, value.cache_parameters()))
            case dict():
                yield from self.parts(sorted(value.items(), key=lambda item: _order(item[0])))
            case set() | frozenset():
                yield from self.parts(sorted(value, key=_order))
            case list() | tuple():
                yield f"{len(value)} items"
                for item in value:
                    yield from self.parts(item)
            case CodeType():
                yield from self._code(value)
            case ModuleType():
                yield value.__name__
            case _ if _root(type(value).__module__) == self._root and isinstance(_call_of(value), FunctionType):
                yield from self.parts((_call_of(value), _state(value)))
            case _:
                yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield f"{function.__module__}.{function.__qualname__}"
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        texts = [_text_of(module) for module in own_modules(function)] if self._by_text else []
        if texts and None not in texts:
            yield from map(str, texts)
        else:
            yield from self._code(function.__code__)
        if _root(function.__module__) != self._root:
            return
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        yield from self.parts((function.__defaults__, function.__kwdefaults__, cells))
        used = sorted({*_globals_of(function.__code__)} & function.__globals__.keys())
        yield from self.parts([(name, function.__globals__[name]) for name in used])

    def _code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        yield from code.co_names
        yield from self.parts(code.co_consts)


def _globals_of(code: CodeType) -> Iterator[str]:
    """What it looks up in its module. cloudpickle sends no more; `co_names` has the names of attributes, too."""
    yield from (found.argval for found in dis.get_instructions(code) if found.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _order(value: Any) -> str:
    """Not where it is in memory: that is another place in each process."""
    return value.__qualname__ if isinstance(value, FunctionType) else repr(value)


def _state(value: Any) -> Any:
    return value if inspect.isclass(value) else (type(value).__qualname__, getattr(value, "__dict__", {}))


def _call_of(value: Any) -> Any:
    return type(value).__call__ if callable(value) and not inspect.isclass(value) else None


def _module_of(function: Any) -> str:
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    is_named = isinstance(function, FunctionType) or inspect.isclass(function) or inspect.isbuiltin(function)
    return getattr(function if is_named else type(function), "__module__", None) or ""


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _text_of(module: ModuleType) -> str | None:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return None
