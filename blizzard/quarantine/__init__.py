"""Where bad records go: their table, in step with the main one; listed, exported, purged, parsed once more.

Called, this package is the function of the Python API that has its name: `blizzard.quarantine("/lake/events")`.
"""

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Called(ModuleType):
    """Python binds a package that was imported to its name in the parent, and the function has the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _function()(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_function())


def _function() -> Any:
    return import_module("blizzard.api").quarantine  # by name: this package lies below the API


sys.modules[__name__].__class__ = _Called
