"""What to ingest, as the arguments of `blizzard run`. The same for every runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """`options` are configuration keys, such as {"limits.max_files": "1000"}. `flags` are any other arguments of
    `blizzard run`, such as ("--infer",). Texts may hold Airflow templates. Leave `table` out if `config` or `options`
    have several targets."""

    source: str
    pipeline: str
    table: str | None = None
    schema: str | None = None
    config: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        given = {
            "--source": self.source,
            "--table": self.table,
            "--pipeline": self.pipeline,
            "--schema": self.schema,
            "--config": self.config,
        }
        words = [word for name, value in given.items() if value is not None for word in (name, value)]
        words += [word for key, value in self.options.items() for word in ("--set", f"{key}={value}")]
        return words + list(self.flags)
