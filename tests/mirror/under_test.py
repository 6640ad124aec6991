"""A mirror under test: its URI, what a command needs to get there, and what it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.core.mirror import Series
from blizzard.mirror import StoredMirror, open_mirror


@dataclass(frozen=True, kw_only=True)
class MirrorUnderTest:
    kind: str
    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def stored(self) -> StoredMirror:
        """As a run opens it."""
        given = {f"storage_options.{name}": value for name, value in self.options.items()}
        request = Request(config=make_config(given | {"checkpoint.mirror": self.uri}))
        root = request.mirror_root
        assert root is not None
        return open_mirror(root, request.mirror_access(root))

    @property
    def access(self) -> list[str]:
        """For a command that is given the URI in another way."""
        given = [f"storage_options.{name}={value}" for name, value in self.options.items()]
        return [word for assignment in given for word in ("--set", assignment)]

    @property
    def words(self) -> list[str]:
        """For a command."""
        return ["--set", f"checkpoint.mirror={self.uri}", *self.access]

    def sequences(self, pipeline: str = "p") -> list[int]:
        """Of the one series of a pipeline that it has."""
        (newest,) = [v for v in self.stored.newest_of_each() if v.series.pipeline == pipeline]
        held = self.stored.look(newest.series)
        assert held.newest == newest.id
        return sorted(held.batches)

    def exported(self, series: Series, sequence: int | None = None) -> dict[str, Any]:
        found = self.stored.read(series, sequence)
        assert found is not None
        fields: dict[str, Any] = json.loads(found)
        return fields
