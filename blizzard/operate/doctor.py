"""`blizzard doctor`: whether this machine and this table are ready for a run, which committer fits, and why.

Changes nothing. Each finding is one line with a verdict.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from blizzard import native
from blizzard.config.load import Config
from blizzard.core.paths import Path
from blizzard.core.pause import describe_pause
from blizzard.delta import log
from blizzard.delta.features import check_features
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import Refused, known_failure
from blizzard.operate.mirrors import mirror_of, mirror_status
from blizzard.operate.status import read_status
from blizzard.run.assemble import Assembly
from blizzard.spark.archive import NoArchive, find_archive, jvm_for
from blizzard.spark.databricks import ACCESS_MODE, judge_databricks
from blizzard.spark.java import describe_fit, find_java, is_too_old, java_version
from blizzard.spark.session import local_options, starts_jvm_here
from blizzard.store import open_store
from blizzard.store.uri import is_local

_RECENT_COMMITS = 50
_INSTALLED_AS = {"duckdb": "'blizzard-delta[sql]'"}
_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "s3fs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`verdict`: ok, note (nothing to do), warning (look at it) or problem (a run would stop)."""

    verdict: str
    about: str
    text: str


def examine(assembly: Assembly) -> list[Finding]:
    return examine_machine(assembly) + (examine_table(assembly) if assembly.config.table.path is not None else [])


def examine_machine(assembly: Assembly) -> list[Finding]:
    config = assembly.config
    needs_duckdb = any(one.transform.sql is not None for one in (config, *config.targets.values()))
    return [*_machine(needs_duckdb=needs_duckdb), *_warm_up(config.spark_conf), *_mirror(assembly)]


def examine_table(assembly: Assembly) -> list[Finding]:
    """The table itself, and its pipelines."""
    findings: list[Finding] = []
    try:
        findings += _table(assembly)
    except Exception as e:
        failure = known_failure(e)
        if failure is None:
            raise
        findings.append(Finding(verdict="problem", about="table", text=f"{failure} [{failure.kind}]"))
    return findings


def _machine(*, needs_duckdb: bool = False) -> Iterator[Finding]:
    yield _java()
    for package in (*_PACKAGES, *(("duckdb",) if needs_duckdb else ())):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            needed = {"delta-spark": "only the delta-spark committer needs it", "s3fs": "only s3:// needs it"}
            why = needed.get(package)
            yield Finding(
                verdict="note" if why else "problem",
                about=package,
                text=f"not installed; {why or 'blizzard needs it: pip install ' + _INSTALLED_AS.get(package, package)}",
            )
        else:
            yield Finding(verdict="ok", about=package, text=version)
    yield _parser()
    yield from _databricks()


def _parser() -> Finding:
    if native.is_available():
        return Finding(verdict="ok", about="parser", text="native")
    return Finding(
        verdict="note",
        about="parser",
        text=f"pyarrow, several times slower: the native parser is not installed ({native.why_not()}). Install Rust"
        f" 1.88 or newer, and then blizzard again",
    )


def _java() -> Finding:
    java, spark = find_java(), _spark_version()
    if java is None:
        text = f"not found, and {describe_fit(spark)}: install one of them, or set JAVA_HOME"
        return Finding(verdict="problem", about="java", text=text)
    version = java_version(java)
    if version is None or is_too_old(version, spark):
        return Finding(
            verdict="problem", about="java", text=f"Java {version or 'unknown'} at {java}: {describe_fit(spark)}"
        )
    return Finding(verdict="ok", about="java", text=f"Java {version}")


def _warm_up(conf: Mapping[str, str]) -> Iterator[Finding]:
    """Whether local sessions start from an archive. Says nothing of other sessions, or where there is no Spark."""
    if find_java() is None or importlib.util.find_spec("pyspark") is None or not starts_jvm_here(conf):
        return
    try:
        archive = find_archive(jvm_for(conf, local_options(conf)))
    except NoArchive as e:
        advice = ": blizzard warm-up makes local runs start faster" if e.can_be_made else ""
        yield Finding(verdict="note", about="warm-up", text=f"no archive of the JVM, {e}{advice}")
    else:
        text = f"an archive of {archive.size_bytes / 1_000_000:.0f} MB fits: local runs start from it"
        yield Finding(verdict="ok", about="warm-up", text=text)


def _mirror(assembly: Assembly) -> Iterator[Finding]:
    """Whether the mirror can be written. A run goes on if not, so this is never a problem."""
    mirror = mirror_of(assembly)
    if mirror is None:
        return
    try:
        mirror.check()
    except Exception as e:
        failure = known_failure(e)
        if failure is None:
            raise
        text = f"{mirror.shown} cannot be written: {failure} [{failure.kind}]"
        yield Finding(verdict="warning", about="mirror", text=text)
    else:
        yield Finding(verdict="ok", about="mirror", text=f"{mirror.shown} can be written")


def _spark_version() -> str:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return "4"


def _databricks() -> Iterator[Finding]:
    found = judge_databricks(os.environ, _settings_of_active_session())
    if found is not None:
        yield Finding(verdict=found.verdict, about="databricks", text=found.text)


def _settings_of_active_session() -> dict[str, str]:
    """Of a session that is already running, as in a notebook. Starts none."""
    if "pyspark" not in sys.modules:
        return {}
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return {}
    mode = session.conf.get(ACCESS_MODE, None)
    return {} if mode is None else {ACCESS_MODE: mode}


def _table(assembly: Assembly) -> Iterator[Finding]:
    table, config = assembly.open_table(), assembly.config
    yield Finding(verdict="ok", about="table", text=f"version {table.version} at {table.root}, id {table.table_id}")
    fits = dict(_committers(table))
    for name, problem in fits.items():
        yield Finding(verdict="ok" if problem is None else "note", about=name, text=problem or "can write this table")
    yield from _choice(table, fits, config)
    yield from _writers(table, assembly)
    yield from _retention(table)
    yield from _pipelines(table, assembly)


def _pipelines(table: DeltaRsTable, assembly: Assembly) -> Iterator[Finding]:
    """Where each stands, and whether a run could go on from there."""
    found = read_status(
        table,
        uri=table.root,
        scan_commits=assembly.config.checkpoint.scan_commits,
        quarantine=assembly.quarantine,
    ).pipelines
    if not found:
        yield Finding(verdict="ok", about="pipelines", text="none has committed to it")
    for pipeline in found:
        filters = "".join(f", {key} {value}" for key, value in (pipeline.filters or {}).items())
        name = f"{pipeline.pipeline} (sequence {pipeline.sequence}{filters})"
        if pipeline.recovery_message is not None:
            yield Finding(verdict="problem", about="pipelines", text=f"{name}: {pipeline.recovery_message}")
        elif pipeline.paused is not None:
            text = f"{name}: {describe_pause(pipeline.paused)}; runs read nothing until blizzard resume"
            yield Finding(verdict="warning", about="pipelines", text=text)
        elif pipeline.recovery is Path.DELTA_CHECKPOINT:
            text = f"{name}: its position is in a Delta checkpoint only; the next run puts it into the log again"
            yield Finding(verdict="warning", about="pipelines", text=text)
        else:
            yield Finding(verdict="ok", about="pipelines", text=name)
        mirrored = mirror_status(assembly, table, pipeline.pipeline, pipeline.sequence)
        if mirrored is not None and mirrored.error is None and mirrored.behind:
            yield Finding(verdict="warning", about="mirror", text=f"{pipeline.pipeline}: {mirrored.sentence}")


def _committers(table: DeltaRsTable) -> Iterator[tuple[str, str | None]]:
    for name in ("delta-rs", "delta-spark"):
        try:
            check_features(table.schema, table.protocol, table.metadata, committer=name)
        except Refused as e:
            yield name, str(e)
        else:
            yield name, None


def _choice(table: DeltaRsTable, fits: dict[str, str | None], config: Config) -> Iterator[Finding]:
    chosen = config.table.committer
    if fits["delta-rs"] is not None and fits["delta-spark"] is not None:
        text = "neither committer can write this table"
        yield Finding(verdict="problem", about="committer", text=text)
    elif fits[chosen] is not None:
        other = "delta-spark" if chosen == "delta-rs" else "delta-rs"
        yield Finding(
            verdict="problem", about="committer", text=f"this table needs --committer {other}: {fits[chosen]}"
        )
    elif chosen == "delta-spark" and (is_local(table.root) or table.root.startswith("s3://")):
        text = (
            "delta-spark: Spark's log store does not keep two processes apart here; the run asks for"
            " table.sole_writer=true, or a log store that does (S3DynamoDBLogStore). delta-rs needs neither"
        )
        yield Finding(verdict="warning", about="committer", text=text)
    else:
        why = "atomic creates, no JARs" if chosen == "delta-rs" else "the session's log store and table features"
        yield Finding(verdict="ok", about="committer", text=f"{chosen}: {why}")


def _writers(table: DeltaRsTable, assembly: Assembly) -> Iterator[Finding]:
    """Who has committed lately, and whether their commits can overwrite ours."""
    engines = Counter(_engines(assembly, table.version))
    named = ", ".join(f"{engine} ({count})" for engine, count in engines.most_common()) or "nobody"
    by_spark = any(engine.startswith("Apache-Spark") for engine in engines)
    if by_spark and table.root.startswith("s3://") and assembly.config.table.committer == "delta-rs":
        yield Finding(
            verdict="warning",
            about="writers",
            text=f"of the last commits: {named}. On S3, nothing keeps Spark and delta-rs apart: a commit of Spark can"
            " overwrite one of ours that is made at the same moment. Its records and its position are then lost"
            " together, and the next run ingests them again. Run such jobs (OPTIMIZE, MERGE) at other times",
        )
    else:
        yield Finding(verdict="ok", about="writers", text=f"of the last commits: {named}")


def _engines(assembly: Assembly, newest: int) -> Iterator[str]:
    store = open_store(assembly.request.table_root, assembly.request.table_access)
    for version in range(newest, max(-1, newest - _RECENT_COMMITS), -1):
        content = store.read(log.commit_name(version))
        if content is None:
            return
        for line in content.splitlines():
            if b'"commitInfo"' in line[:20]:
                yield _engine_of(line)
                break


def _engine_of(line: bytes) -> str:
    """Any writer of the table writes this, so it may hold anything."""
    try:
        info = orjson.loads(line)["commitInfo"]
        ours = '"blizzard"' in str(info.get("userMetadata") or "")[:20]
        return "blizzard" if ours else str(info.get("engineInfo") or info.get("clientVersion") or "unknown")[:100]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "unknown"


def _retention(table: DeltaRsTable) -> Iterator[Finding]:
    if table.txn_retention_ms is None:
        yield Finding(
            verdict="warning",
            about="txns",
            text="delta.setTransactionRetentionDuration is not set: every commit leaves its position in the Delta"
            " checkpoints for ever (692 KB after 2,000 commits). ALTER TABLE … SET TBLPROPERTIES"
            " ('delta.setTransactionRetentionDuration' = 'interval 14 days')",
        )
    else:
        days = table.txn_retention_ms / 86_400_000
        yield Finding(verdict="ok", about="txns", text=f"positions are kept for {days:g} days, and renewed while idle")
