"""From a command's options to its request and parts. Flags, `--set` and the file are read here, for all commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from blizzard.config.load import Config, load_config
from blizzard.config.request import Request, make_request
from blizzard.core.events import Emit, unheard
from blizzard.run.assemble import Assembly, resolve_table
from blizzard.spark.session import LazySession, settings_of

# Which flag sets which key. A flag means the same in every command that has it.
FLAGS = {
    "source": "source.path",
    "pattern": "source.pattern",
    "table": "table.path",
    "quarantine": "quarantine.path",
    "committer": "table.committer",
    "schema": "schema.ddl",
    "infer": "schema.infer",
    "hints": "schema.hints",
    "variant": "schema.variant",
    "sample_records": "schema.sample_records",
    "sample_files": "schema.sample_files",
    "api_addr": "api.address",
    "log_format": "log.format",
}


def config_of(options: argparse.Namespace) -> Config:
    """The file, then `--set`, then flags: the later one wins."""
    flags = {key: getattr(options, name, None) for name, key in FLAGS.items()}
    return load_config(file=options.config, assignments=tuple(options.assignments), flags=flags)


@contextmanager
def session_for(config: Config) -> Iterator[LazySession]:
    """Started when it is first asked for; stopped at the end if it was started here."""
    with LazySession(config.spark_conf, with_delta=config.table.committer == "delta-spark") as session:
        yield session


def request_to_ingest(options: argparse.Namespace, config: Config, session: LazySession) -> Request:
    return make_request(
        resolve_table(config, session),
        pipeline=options.pipeline,
        start_from=getattr(options, "start_from", None),
        adopts=getattr(options, "adopt", False),
        reads_again=getattr(options, "reads_again", False),
        max_batches=getattr(options, "max_batches", None),
        accepts_quarantine_loss=getattr(options, "accept_quarantine_loss", False),
        spark_settings=settings_of(None),
    )


@contextmanager
def looking(options: argparse.Namespace, emit: Emit = unheard) -> Iterator[Assembly]:
    """For a command on a table."""
    config = config_of(options)
    with session_for(config) as session:
        request = Request(
            config=resolve_table(config, session),
            spark_settings=settings_of(None),
            accepts_quarantine_loss=getattr(options, "accept_quarantine_loss", False),
        )
        yield Assembly(request=request, session=session, emit=emit)


@contextmanager
def ingesting(options: argparse.Namespace, emit: Emit = unheard) -> Iterator[Assembly]:
    """For a command on a table and its source, both given as for a run."""
    config = config_of(options)
    with session_for(config) as session:
        yield Assembly(request=request_to_ingest(options, config, session), session=session, emit=emit)
