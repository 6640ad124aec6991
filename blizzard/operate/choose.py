"""Changes which files a pipeline reads: its pattern and filters, and the date that it began at. A commit without data.

What the mark has passed of the newly chosen files is named in the position, to be read once, or in the ledger, as left
out by a person. If those are more than one ledger holds, they go into several commits, and the last one changes the
choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from blizzard.core.choose import (
    SKIP,
    Change,
    choice_in,
    choices_so_far,
    compare_choices,
    position_after,
    refuse_change,
    skipped_entries,
)
from blizzard.core.kinds import Kind
from blizzard.core.overlap import may_change_to
from blizzard.core.patterns import DEFAULTS
from blizzard.core.position import Begun, Position
from blizzard.core.recover import StartFrom, refuse_other_source
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.operate.positions import changed_meanwhile, committing_on, edit_intent, on_this_version
from blizzard.operate.transfer import newest_position
from blizzard.run.assemble import Assembly
from blizzard.run.settle import settle
from blizzard.source.chosen import chosen_by
from blizzard.source.listing import list_source


def plan_choice(assembly: Assembly, table: DeltaRsTable) -> Change:
    """What it means if the pipeline reads what the request chooses. Changes nothing."""
    given = assembly.request.source_location
    before = _current(assembly, table)
    source = given.identity
    if given.by_default and before.source.pattern in DEFAULTS:
        source = replace(source, pattern=before.source.pattern)  # a wider default has to be asked for by its name
    if not may_change_to(before.source, source):
        refusal = refuse_other_source(before, source)
        raise Refused(refusal.message, kind=refusal.kind)
    begun = _begun(before.begun, assembly.request.start_from)
    old, new = given.reading(choice_in(before)), given.reading(source, begun.since_ms)
    return compare_choices(
        before,
        # In one listing: a file that arrives between two would seem to be chosen by one of them only.
        list_source(new, chosen=chosen_by(new, old)),
        table.scan_back(),
        source=source,
        begun=begun,
        was_chosen=chosen_by(old).takes,
        is_chosen=chosen_by(new).takes,
        may_have_taken=[chosen_by(given.reading(choice)).takes for choice in choices_so_far(before)],
    )


def apply_choice(
    assembly: Assembly,
    table: DeltaRsTable,
    change: Change,
    below: str | None,
    plan_again: Callable[[], Change],
) -> tuple[int, int]:
    """The sequence and the version of the last commit. `table` is the one that the change was planned on."""
    while True:
        entries = skipped_entries(change.passed if below == SKIP else ())
        is_last = below != SKIP or len(entries) == len(change.passed)
        committing = committing_on(table, assembly.quarantine, assembly.emit, assembly.mirror)
        settle(committing.quarantine, table, change.before, since=table.version)
        after = position_after(change, below) if is_last else change.before
        # Decide again what is archived or deleted: only what a listing shows is touched.
        cleaned = replace(after.cleaned, due_through=after.cleaned.done_through)
        before = replace(on_this_version(after, table), cleaned=cleaned)

        def look_again(planned: Change = change) -> None:
            if plan_again().essence != planned.essence:
                raise changed_meanwhile()

        landed = committing.commit_edit(edit_intent(before, committing, edited=entries), look_again=look_again)
        if is_last:
            return landed
        table.refresh()
        change = plan_again()
        refusal = refuse_change(change, below)
        if refusal is not None:
            raise Refused(refusal.message, kind=refusal.kind)


def _current(assembly: Assembly, table: DeltaRsTable) -> Position:
    """The newest position of the pipeline; without a name, of the one pipeline that reads this folder."""
    pipeline = assembly.request.pipeline or _reader(assembly, table)
    return newest_position(table, pipeline, scan_commits=assembly.config.checkpoint.scan_commits)


def _reader(assembly: Assembly, table: DeltaRsTable) -> str:
    root = assembly.request.source_location.identity.root
    standings = table.standings(scan_commits=assembly.config.checkpoint.scan_commits)
    names = sorted(name for name, found in standings.items() if found.position.source.root == root)
    if len(names) > 1:
        raise Refused(
            f"{len(names)} pipelines of this table read this folder: {', '.join(names)}. Say which one is meant:"
            f" --pipeline NAME.",
            kind=Kind.SEVERAL_PIPELINES,
        )
    return names[0] if names else assembly.pipeline_of(table)


def _begun(before: Begun, start: StartFrom | None) -> Begun:
    """How the pipeline began, if the date of that is changed too."""
    if start is None:
        return before
    if start.after is not None or start.adopts or StartFrom.parse(before.start_from or "beginning") is None:
        raise ConfigError(
            "the place where a pipeline began cannot be changed, only the date; to read a single file, use blizzard"
            " checkpoint reset --file NAME --from-record 0 --yes",
            kind=Kind.USAGE,
        )
    named = (before.start_from or "").startswith("after:")
    return replace(before, since_ms=start.since_ms, start_from=before.start_from if named else str(start))
