"""The commands of the person who is paged: audit, doctor, vacuum-orphans."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from dataclasses import asdict

from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of
from blizzard.cli.show import left_out_rows
from blizzard.core.audit import Audit
from blizzard.core.lists import count, some
from blizzard.errors import BadData, Refused
from blizzard.operate.audit import audit_source
from blizzard.operate.doctor import examine
from blizzard.operate.orphans import delete_orphans, find_orphans
from blizzard.quarantine.contents import parse_age


def dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "audit":
            return _audit(options)
        case "doctor":
            return _doctor(options)
        case _:
            return _vacuum_orphans(options)


def _doctor(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        findings = examine(assembly)
    lines = (f"{finding.verdict:<8} {finding.about:<12} {finding.text}" for finding in findings)
    output_of(options).result([asdict(finding) for finding in findings], lines)
    return Refused.exit_code if any(f.verdict == "problem" for f in findings) else 0


_AUDIT_WORDS = {
    "waiting": "wait for the next run",
    "partial": "of those are in progress: some of their lines are committed",
    "held": "of those are held back",
    "unreadable": "of those cannot be read, and waiting does not help",
    "broken": "were given up before their end: see blizzard dlq list",
    "unfinished": "are finished by the position, but their ledger says that they were not read to the end",
    "skipped": "were left out by a person (checkpoint skip)",
    "never_ingested": "were never ingested, although the mark has passed them (late)",
    "unclear": "were passed by the mark, but the ledgers that would know them are gone",
    "taken_over": "are finished by the position that was taken over; no ledger of this table names them",
    "in_rows": "have rows in the table; the ledgers that would say more are gone",
    "twice": "were ingested twice, at least in part",
    "read_by_others": "were ingested by another pipeline of this table too, at least in part",
    "rewritten": "have changed since they were ingested",
    "gone": "were ingested and are no longer in the source",
    "rows_missing": "were ingested, but the table has no row of them",
    "rows_unknown": "have rows in the table, but no ledger names them",
    "quarantine_missing": "commits had bad records that are not in the quarantine; their sequences",
    "quarantine_unknown": "sequences have bad records in the quarantine, but no commit in the log",
}


def _audit(options: argparse.Namespace) -> int:
    with ingesting(options) as assembly:
        found = audit_source(assembly, counts_rows=not options.no_rows)
    problems = found.problems
    shown = asdict(found) | {"ok": not problems, "problems": list(problems)}
    output_of(options).result(shown, _audit_lines(found, problems))
    return BadData.exit_code if problems and options.check else 0


def _audit_lines(found: Audit, problems: Collection[str]) -> Iterator[str]:
    yield f"{count(found.listed, 'file')} listed, {found.ingested:,} of them ingested whole and unchanged since"
    for name, words in _AUDIT_WORDS.items():
        names = [str(item) for item in getattr(found, name)]
        if names:
            yield f"{'!' if name in problems else ' '} {len(names):,} {words}: {some(names)}"
    for _, text in left_out_rows(found.unmatched_by_suffix, found.filtered):
        yield f"  not part of the source: {text}"
    others = sorted({other for pipelines in found.read_by_others.values() for other in pipelines})
    if others:
        yield f"  the other pipelines: {', '.join(others)}"
    if found.bad_records or found.quarantined:
        yield f"  {found.bad_records:,} records were bad; the quarantine holds {found.quarantined or 0:,} rows"
    yield "nothing is wrong" if not problems else f"problems: {count(len(problems), 'kind')}, marked with !"


def _vacuum_orphans(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        request = assembly.request
        found = find_orphans(
            assembly.open_table(),
            request.quarantine_root,
            parse_age(options.older_than),
            request.table_access,
            quarantine_access=request.quarantine_access,
        )
        deleted = delete_orphans(found, lambda folder: request.access("table", folder)) if options.yes else 0
    size = sum(orphan.size_bytes for orphan in found)
    lines = [f"{o.path}  {o.size_bytes:,} bytes  {o.age_s / 86_400:.0f} days" for o in found]
    done = f"{deleted} deleted" if options.yes else "none deleted (add --yes)"
    shown = {"files": [asdict(o) for o in found], "bytes": size, "deleted": deleted}
    output_of(options).result(shown, [*lines, f"{count(len(found), 'orphan')}, {size:,} bytes; {done}"])
    return 0
