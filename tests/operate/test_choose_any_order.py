"""Files, runs, changes of what is chosen and cleaned logs in any order: each record of the files chosen in the end is
in the table once, or was left out by a person's word; none is in it twice; and none that was never chosen."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core.choose import INGEST, SKIP, refuse_change
from blizzard.errors import Refused
from blizzard.operate.choose import apply_choice, plan_choice
from blizzard.run.assemble import Assembly
from blizzard.run.carry_out import carry_out
from blizzard.run.ports import Ingestor
from blizzard.source.chosen import chosen_by
from blizzard.source.listing import list_source
from blizzard.tasks.spec import TaskSpec
from tests.flows.in_process import InProcessIngestor, clean_up_log
from tests.ingesting import DDL, ids, is_table, write_ids

NAMES = [f"{letter}.{suffix}" for letter in "abcdef" for suffix in ("json", "ndjson", "log")]
MOMENTS = ["2026-01-01", "2026-02-01", "2026-03-01"]
RECORDS = 2


class Here(Assembly):
    """With the tasks of a run in this process."""

    def ingestor(self, spec: TaskSpec) -> Ingestor:
        return InProcessIngestor(spec, 1)


choices = st.fixed_dictionaries(
    {
        "source.pattern": st.sampled_from(["default", "default-2", "*.log", "{*.json,*.log}", "**"]),
        "source.modified_after": st.sampled_from([None, None, *MOMENTS[1:]]),
        "source.modified_before": st.sampled_from([None, None, "2026-03-01", "2026-04-01"]),
        "source.ignore": st.sampled_from([None, None, "a.*", "[c-e].json"]),
    }
).map(lambda choice: {key: value for key, value in choice.items() if value is not None})
choices = choices.filter(lambda c: c.get("source.modified_after", "0") < c.get("source.modified_before", "9"))
files = st.tuples(st.just("add"), st.sampled_from(NAMES), st.sampled_from(MOMENTS))
steps = st.one_of(
    files,
    st.tuples(st.just("run")),
    st.tuples(st.just("begin")),
    # Often with the ledgers gone, and then a run: so that only the position can know.
    st.tuples(st.just("choose"), choices, st.sampled_from([INGEST, INGEST, SKIP, None]), st.booleans(), st.booleans()),
)


@dataclass
class Story:
    folder: Path
    choice: dict[str, Any]
    files: dict[str, int] = field(default_factory=dict)  # the first id of each
    ever_chosen: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)  # by a person's word
    is_cleaned: bool = False  # the ledgers are gone
    never_read: set[str] = field(default_factory=set)  # of those: nobody had read them before

    def assembly(self, choice: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> Assembly:
        # Without a grace only files that came after the last look are young, so that what the ledgers no longer know
        # is not found as late either.
        places = {"source.path": str(self.folder / "src"), "table.path": str(self.folder / "table")}
        places["late_files.grace_s"] = "0"
        config = make_config(places | (self.choice if choice is None else choice) | (limits or {}))
        request = make_request(config, pipeline="p", schema=None if self.has_table else DDL)
        return Here(request=request)

    @property
    def has_table(self) -> bool:
        return is_table(self.folder / "table")

    def chosen(self) -> list[str]:
        location = self.assembly().request.source_location
        return [file.path for file in list_source(location, chosen=chosen_by(location))]

    def add(self, name: str, moment: str) -> None:
        if name in self.files:
            return
        self.files[name] = first = RECORDS * len(self.files)
        path = write_ids(self.folder / "src" / name, first, first + RECORDS)
        seconds = int(moment[5:7])  # the times of the choices are of these months
        at = {1: 1767225600, 2: 1769904000, 3: 1772323200}[seconds]
        os.utime(path, (at, at))

    def run(self, *, is_cut: bool = False) -> None:
        limits = {"limits.max_records": 3} if is_cut else {}
        assembly = self.assembly(limits=limits)
        if not self.chosen() and not self.has_table:
            return  # nothing matches: that is no success, and another test's matter
        self.ever_chosen.update(self.chosen())
        request = replace(assembly.request, max_batches=1 if is_cut else None)
        assembly = replace(assembly, request=request)
        carry_out(assembly, assembly.open(), run_id=f"run{len(self.files)}")

    def choose(self, choice: dict[str, Any], below: str | None) -> None:
        if not self.has_table:
            self.choice = choice  # nobody has begun
            return
        assembly = self.assembly(choice)
        table = assembly.open_for_commit()
        if not table.fence("p"):
            return
        change = plan_choice(assembly, table)
        if refuse_change(change, below) is not None:
            return
        if change.changes_anything:
            apply_choice(assembly, table, change, below, lambda: plan_choice(assembly, table))
            if below == SKIP:
                self.left_out |= {file.path for file in change.passed}
                self.never_read |= {file.path for file in change.below}
        self.choice = choice

    def clean(self) -> None:
        if self.has_table:
            self.is_cleaned = True
            clean_up_log(self.folder / "table")

    def ids_of(self, names: set[str]) -> set[int]:
        return {self.files[name] + i for name in names for i in range(RECORDS)}

    def check(self, *, is_at_end: bool) -> None:
        found = Counter(ids(self.folder / "table")) if self.has_table else Counter[int]()
        assert set(found.values()) <= {1}
        assert found.keys() <= self.ids_of(self.ever_chosen)
        assert found.keys().isdisjoint(self.ids_of(self.never_read))
        if is_at_end and self.has_table:
            assert found.keys() >= self.ids_of(set(self.chosen()) - self.left_out)


@settings(max_examples=60, deadline=None)
@given(choices, st.lists(files, min_size=6, max_size=9), st.lists(steps, min_size=1, max_size=8))
def test_each_record_once_whatever_is_chosen_in_whatever_order(
    first: dict[str, Any], there: list[tuple[Any, ...]], told: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), first)
        (story.folder / "src").mkdir()
        try:
            # In two commits: after the first of a pipeline a cleaned log still has all ledgers.
            for step in [*there[:3], ("run",), *there[3:], ("run",), *told]:
                match step:
                    case ("add", name, moment):
                        story.add(name, moment)
                    case ("run",):
                        story.run()
                    case ("begin",):
                        story.run(is_cut=True)
                    case ("choose", choice, below, is_cleaned, is_run):
                        if is_cleaned:
                            story.clean()
                        story.choose(choice, below)
                        if is_run:
                            story.run()
                story.check(is_at_end=False)
            story.run()
        except Refused as e:
            # With its ledgers gone, nobody knows whether a young file was read. A person would look.
            assert e.kind == "late_unclear"
            assert story.is_cleaned
            story.check(is_at_end=False)
        else:
            story.check(is_at_end=True)
