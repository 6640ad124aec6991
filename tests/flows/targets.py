"""A pipeline with several targets: its configuration, what its tables and quarantines hold, and that both are right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from deltalake import DeltaTable

from blizzard.delta.place import DeltaRsPlace
from tests.flows.in_process import SetClock
from tests.ingesting import DDL, is_table, line, write

_ID = re.compile(rb"\d+")


def bad(record_id: int) -> bytes:
    """A line that is bad for every target, with an id that a test can see."""
    return b'{"id":"no number %d"}\n' % record_id


def no_object(record_id: int) -> bytes:
    return b"no object %d\n" % record_id


@dataclass
class Targets:
    """Pipeline `p` from `folder`/src. `own` has the keys of each target, whose table is in the folder of its name."""

    folder: Path
    own: dict[str, dict[str, Any]]
    keys: dict[str, Any] = field(default_factory=dict)
    schema: str | None = DDL
    config: str = "targets.yaml"

    @property
    def src(self) -> Path:
        return self.folder / "src"

    def table(self, name: str) -> Path:
        return self.folder / name

    def quarantine(self, name: str) -> Path:
        path = self.own[name].get("quarantine", {}).get("path")
        return self.folder / f"{name}_quarantine" if path is None else Path(path)

    def words(self, *more: str) -> list[str]:
        """Of a command. Writes the configuration anew: a test may have changed it."""
        tree: dict[str, Any] = {"source": {"path": str(self.src)}, **self.keys}
        if self.schema is not None:
            tree["schema"] = {"ddl": self.schema} | tree.get("schema", {})
        tree["targets"] = {
            name: own | {"table": {"path": str(self.table(name))} | own.get("table", {})}
            for name, own in self.own.items()
        }
        path = self.folder / self.config
        path.write_text(yaml.safe_dump(tree))
        return ["--config", str(path), "--pipeline", "p", *more]

    def put(self, name: str, ids: Iterable[int], bad_ids: Collection[int] = ()) -> Path:
        """A source file with a line for each id."""
        return write(self.src / name, b"".join(bad(i) if i in bad_ids else line(i) for i in ids))

    # What is there.

    def ids(self, name: str) -> Counter[int]:
        if not is_table(self.table(name)):
            return Counter()
        return Counter(DeltaTable(str(self.table(name))).to_pyarrow_table(columns=["id"])["id"].to_pylist())

    def bad_ids(self, name: str) -> Counter[int]:
        """Of the records that came into quarantine for this target."""
        root, table_id = self.quarantine(name), self.table_id(name)
        if not is_table(root):
            return Counter()
        rows = DeltaTable(str(root)).to_pyarrow_table(columns=["raw", "table_id"]).to_pylist()
        return Counter(int(_ID.findall(row["raw"])[0]) for row in rows if row["table_id"] == table_id)

    def table_id(self, name: str) -> str | None:
        root = self.table(name)
        return str(DeltaTable(str(root)).metadata().id) if is_table(root) else None

    def version(self, name: str) -> int:
        return int(DeltaTable(str(self.table(name))).version())

    def sequence(self, name: str) -> int:
        """The fence of the pipeline."""
        table = DeltaRsPlace(root=str(self.table(name)), schema=None, clock=SetClock(0)).open()
        return 0 if table is None else table.fence("p") or 0

    # What must be so.

    def check_none_twice(self, *, but: Collection[str] = ()) -> None:
        """At any moment. `but` are targets whose table cannot be read now."""
        for name in self.own.keys() - set(but):
            rows, quarantined = self.ids(name), self.bad_ids(name)
            assert not [i for i, times in (rows + quarantined).items() if times > 1], name

    def check_each_once(self, ids: Iterable[int], bad_ids: Iterable[int] = (), *, of: Collection[str] = ()) -> None:
        """When a run has come to its end."""
        for name in of or self.own:
            assert (name, self.ids(name)) == (name, Counter(ids))
            assert (name, self.bad_ids(name)) == (name, Counter(bad_ids))
