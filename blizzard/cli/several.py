"""What a command that only looks shows of several targets: a part for each, also where one cannot be looked at."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.cli.output import output_of, say, table_lines
from blizzard.core.lists import count, some
from blizzard.core.pause import describe_pause
from blizzard.core.position import Paused
from blizzard.errors import BadData, BlizzardError, known_failure
from blizzard.operate.status import TableStatus
from blizzard.operate.targets import State, TargetsStatus, TargetStatus
from blizzard.run.assemble import Assembly

# From harmless to worst: the exit code is that of the worst part.
_HARM = (0, 75, 5, 2, 4, 3, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is shown of one target. `error`: it could not be looked at, or a run would stop there."""

    value: Any
    lines: Sequence[str] = ()
    error: BlizzardError | None = None
    code: int = 0
    about: str = ""  # for the heading


def error_part(error: BlizzardError) -> Part:
    value = {"exit_code": error.exit_code, "error_kind": error.kind, "error": str(error)}
    first, *further = str(error).split("\n")
    lines = [f"error: {first} [{error.kind}]", *further]
    return Part(value=value, lines=lines, error=error, code=error.exit_code)


def look_at_each(assembly: Assembly, look: Callable[[Assembly], Part]) -> dict[str, Part]:
    """By target. One that cannot be looked at does not hide the others."""
    return {name: _look(target, look) for name, target in assembly.targets().items()}


def _look(target: Assembly, look: Callable[[Assembly], Part]) -> Part:
    try:
        return look(target)
    except Exception as e:
        failure = known_failure(e)
        if failure is None:
            raise
        return error_part(failure)


def with_one_pipeline(assembly: Assembly) -> Assembly:
    """All targets have one name for the pipeline."""
    return replace(assembly, request=replace(assembly.request, pipeline=assembly.pipeline_of_targets()))


def show_parts(
    options: argparse.Namespace,
    parts: Mapping[str, Part],
    *,
    head: Mapping[str, Any] | None = None,
    head_lines: Iterable[str] = (),
) -> int:
    """One object with a field for each target, or a heading for each. Returns the exit code of the worst part."""
    value = dict(head or {}) | {"targets": {name: part.value for name, part in parts.items()}}
    output_of(options).result(value, _lines(parts, head_lines))
    failed = {name: part.error for name, part in parts.items() if part.error is not None}
    if failed and not options.json:
        said = ", ".join(f"target {name} [{error.kind}]" for name, error in failed.items())
        say(f"blizzard: error above: {said}")
    return worst(part.code for part in parts.values())


def worst(codes: Iterable[int]) -> int:
    return max(codes, key=_HARM.index, default=0)


def _lines(parts: Mapping[str, Part], head_lines: Iterable[str]) -> Iterator[str]:
    is_first = True
    for line in head_lines:
        is_first = False
        yield line
    for name, part in parts.items():
        if not is_first:
            yield ""
        is_first = False
        yield f"target {name}{part.about}"
        yield from (f"  {line}" if line else "" for line in part.lines)


StatusLines = Callable[[TableStatus], Iterable[str]]


def show_status(options: argparse.Namespace, found: TargetsStatus, lines: StatusLines) -> int:
    """`lines` are those of one table."""
    parts = {name: _status_part(target, lines) for name, target in found.targets.items()}
    rows = [] if found.pipeline is None else [f"{'pipeline':<14}{found.pipeline}"]
    rows.append(f"{'commit_policy':<14}{found.commit_policy}")
    if found.paused is not None:
        rows.append(f"{'state':<14}{_paused_text(found.paused)}")
    return show_parts(options, parts, head=found.head(), head_lines=rows)


def _paused_text(paused: Paused) -> str:
    """The log of one target is enough for this."""
    return f"{describe_pause(paused)}: runs read nothing, for no target, until blizzard resume"


def _status_part(target: TargetStatus, lines: StatusLines) -> Part:
    rows = [f"table {target.table}: not there yet"] if target.status is None else list(lines(target.status))
    error = None if target.error is None else error_part(target.error)
    shown = rows if error is None or target.status is not None else []
    return Part(
        value=target.to_dict(),
        lines=[*shown, *_target_rows(target), *(error.lines if error is not None else ())],
        error=target.error,
        code=0 if target.error is None else target.error.exit_code,
        about=f"{_required_text(target.required)}: {_state_text(target)}",
    )


def _required_text(required: bool | None) -> str:
    return "" if required is None else " (required)" if required else " (not required)"


def _state_text(target: TargetStatus) -> str:
    match target.state:
        case State.FRONT:
            return "as far as any other target"
        case State.BEHIND:
            assert target.behind is not None
            return f"behind the others by {count(target.behind.files, 'file')}, {target.behind.stored_bytes:,} bytes"
        case State.NEW:
            return "new: nothing is committed to it"
        case State.REFUSED:
            return "the next start refuses"
        case State.UNKNOWN:
            return "it is not known where it stands"


def _target_rows(target: TargetStatus) -> Iterator[str]:
    if target.begins is not None:
        where = "at the earliest file" if target.begins == "beginning" else target.begins
        yield f"  {'next start':<12}{'' if target.status else 'makes the table, and '}begins {where}"
    if target.backlog_files:
        yield (
            f"  {'if removed':<12}it misses its backlog: {count(target.backlog_files, 'file')},"
            f" {target.backlog_bytes:,} bytes"
        )
    if target.waiting_files:
        yield (
            f"  {'after_ingest':<13}waits for it with {count(target.waiting_files, 'file')} that other targets have"
            f" read further"
        )


PlanLines = Callable[[dict[str, Any]], Iterable[str]]


def show_plan(options: argparse.Namespace, shown: dict[str, Any], lines: PlanLines) -> int:
    """`lines` are those of one table."""
    parts = {name: _plan_part(target, lines) for name, target in shown["targets"].items()}
    head = {key: value for key, value in shown.items() if key != "targets"}
    return show_parts(options, parts, head=head, head_lines=_plan_head(shown))


def _plan_part(shown: dict[str, Any], lines: PlanLines) -> Part:
    code, about = shown.get("exit_code", 0), "" if shown["required"] else " (not required)"
    if code:
        first, *further = shown["error"].split("\n")
        said = [f"error: {first} [{shown['error_kind']}]", *further]
        return Part(value=shown, lines=said, error=_error_of(shown), code=code, about=about)
    stops = (shown.get("validation") or {}).get("stops")
    if stops is None:
        return Part(value=shown, lines=list(lines(shown)), about=about)
    first, *further = stops["error"].split("\n")
    said = [*lines(shown), "", f"error: a run would stop: {first} [{stops['error_kind']}]", *further]
    return Part(value=shown, lines=said, error=_error_of(stops), code=BadData.exit_code, about=about)


def _error_of(shown: Mapping[str, Any]) -> BlizzardError:
    return BlizzardError(shown["error"], kind=shown["error_kind"])


def _plan_head(shown: dict[str, Any]) -> Iterator[str]:
    yield f"{'pipeline':<12}{shown['pipeline']}"
    yield f"{'source':<12}{shown['source']}  {shown['pattern']}"
    yield f"{'policy':<12}{shown['commit_policy']}"
    if shown["paused"] is not None:
        yield f"{'state':<12}{_paused_text(Paused(**shown['paused']))}"
    read = shown["next_read"]
    if shown["ends_run"] is not None:
        yield f"{'next read':<12}none: the run would end, by the error of target {shown['ends_run']}"
        return
    if read is None:
        yield f"{'next read':<12}none: there is nothing to read"
        return
    who = (
        f"for {read['targets'][0]} alone" if len(read["targets"]) == 1 else f"for {', '.join(read['targets'])} at once"
    )
    yield f"{'next read':<12}{count(read['files'], 'file')}, {read['bytes']:,} bytes, {who}"
    if read["in_turn"]:
        yield f"{'in turn':<12}{some(read['in_turn'], 10)}, with batches of their own until one holds what they lag by"
    yield ""
    cells = [[s["slot"], s["path"], s["size"], _wanted(s["from_record"])] for s in read["slices"]]
    yield from table_lines(["SLOT", "FILE", "BYTES", "FOR, FROM RECORD"], cells)


def _wanted(from_record: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {record:,}" for name, record in from_record.items())
