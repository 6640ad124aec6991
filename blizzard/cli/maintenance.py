"""The commands of the person who is paged: audit, doctor, vacuum-orphans."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict

from blizzard.cli import several
from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of
from blizzard.cli.show import left_out_rows
from blizzard.core.audit import Audit
from blizzard.core.balance import Balance
from blizzard.core.lists import count, some
from blizzard.errors import BadData, Refused
from blizzard.operate.audit import audit_source
from blizzard.operate.doctor import Finding, examine, examine_machine, examine_table
from blizzard.operate.orphans import delete_orphans, find_orphans
from blizzard.quarantine.contents import parse_age
from blizzard.run.assemble import Assembly


def dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "audit":
            return _audit(options)
        case "doctor":
            return _doctor(options)
        case _:
            return _vacuum_orphans(options)


def _doctor(options: argparse.Namespace) -> int:
    with looking(options, takes_all=True) as assembly:
        if assembly.config.targets:
            machine = _findings_part(examine_machine(assembly))
            parts = several.look_at_each(assembly, lambda target: _findings_part(examine_table(target)))
            code = several.show_parts(options, parts, head={"machine": machine.value}, head_lines=machine.lines)
            return code or machine.code
        found = _findings_part(examine(assembly))
    output_of(options).result(found.value, found.lines)
    return found.code


def _findings_part(findings: Sequence[Finding]) -> several.Part:
    return several.Part(
        value=[asdict(finding) for finding in findings],
        lines=[f"{finding.verdict:<8} {finding.about:<12} {finding.text}" for finding in findings],
        code=Refused.exit_code if any(f.verdict == "problem" for f in findings) else 0,
    )


# Of how many what is said, for any number of them.
_AUDIT_WORDS = {
    "waiting": ("file", "waiting for the next run"),
    "partial": ("file", "of those in progress: some lines are committed"),
    "held": ("file", "of those held back"),
    "unreadable": ("file", "of those not readable, and waiting does not help"),
    "broken": ("file", "given up before the end: see blizzard dlq list"),
    "unfinished": ("file", "finished by the position, but not read to the end by the ledger"),
    "skipped": ("file", "left out by a person (checkpoint skip), or gone before they could be read"),
    "never_ingested": ("file", "never ingested, although the mark has passed (late)"),
    "unclear": ("file", "passed by the mark, but the ledgers that would know more are gone"),
    "taken_over": ("file", "finished by the position that was taken over, and in no ledger of this table"),
    "in_rows": ("file", "with rows in the table; the ledgers that would say more are gone"),
    "twice": ("file", "ingested twice, at least in part"),
    "read_by_others": ("file", "ingested by another pipeline of this table too, at least in part"),
    "rewritten": ("file", "changed after being ingested"),
    "gone": ("file", "ingested, and no longer in the source"),
    "rows_missing": ("file", "ingested, but without a row in the table"),
    "rows_unknown": ("file", "with rows in the table, but in no ledger"),
    "quarantine_missing": ("commit", "with bad records that are not in the quarantine, by sequence"),
    "quarantine_unknown": ("sequence", "with bad records in the quarantine that no commit in the log left there"),
}


def _audit(options: argparse.Namespace) -> int:
    with ingesting(options, takes_all=True) as assembly:
        if assembly.config.targets:
            parts = several.look_at_each(several.with_one_pipeline(assembly), lambda one: _audit_part(one, options))
            return several.show_parts(options, parts)
        part = _audit_part(assembly, options)
    output_of(options).result(part.value, part.lines)
    return part.code


def _audit_part(assembly: Assembly, options: argparse.Namespace) -> several.Part:
    found = audit_source(assembly, counts_rows=not options.no_rows)
    problems = found.problems
    return several.Part(
        value=asdict(found) | {"ok": not problems, "problems": list(problems)},
        lines=list(_audit_lines(found, problems)),
        code=BadData.exit_code if options.check and problems else 0,
    )


def _audit_lines(found: Audit, problems: Collection[str]) -> Iterator[str]:
    yield f"{count(found.listed, 'file')} listed, {found.ingested:,} of them ingested whole and unchanged since"
    for name, (noun, words) in _AUDIT_WORDS.items():
        names = [str(item) for item in getattr(found, name)]
        if names:
            yield f"{'!' if name in problems else ' '} {count(len(names), noun)} {words}: {some(names)}"
    for _, text in left_out_rows(found.unmatched_by_suffix, found.filtered):
        yield f"  not part of the source: {text}"
    others = sorted({other for pipelines in found.read_by_others.values() for other in pipelines})
    if others:
        yield f"  the other pipelines: {', '.join(others)}"
    if found.bad_records or found.quarantined:
        yield f"  {count(found.bad_records, 'bad record')}; the quarantine holds {count(found.quarantined or 0, 'row')}"
    if found.balance is not None and found.balance.dropped:
        yield from _balance_lines(found.balance)
    if found.filtered_records:
        nobodys = f", {found.unrouted_records:,} of them for no target" if found.unrouted_records else ""
        yield f"  {count(found.filtered_records, 'record')} left out by where or transform{nobodys}"
    yield "nothing is wrong" if not problems else f"problems: {count(len(problems), 'kind')}, marked with !"


def _balance_lines(found: Balance) -> Iterator[str]:
    yield (
        f"  {count(found.records, 'record')} taken = {count(found.rows, 'row')} + {found.quarantined:,} in quarantine"
        f" + {found.dropped:,} dropped" + (f" + {found.unaccounted:,} in no ledger" if found.unaccounted else "")
    )
    if found.unaccounted:
        yield "  in no ledger: purged, given up, or of commits that are no longer in the log"


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
