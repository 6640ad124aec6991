"""A failure that a test expects, by its exact kind: an error of the same class for another reason is not the one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from blizzard.errors import BlizzardError


@contextmanager
def ends_with(kind: str) -> Iterator[pytest.ExceptionInfo[BlizzardError]]:
    with pytest.raises(BlizzardError) as caught:
        yield caught
    assert caught.value.kind == kind, str(caught.value)
