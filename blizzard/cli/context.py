"""From the options of a command to its request: one reading of flags, `--set` and the file, for all commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from blizzard.config.load import Config, load_config
from blizzard.config.request import Request, make_request
from blizzard.run.assemble import Job, make_job
from blizzard.spark.session import LazySession, settings_of

# Which flag is which key. A command takes some of them, and none reads one in another way.
FLAGS = {
    "source": "source.path",
    "pattern": "source.pattern",
    "table": "table.path",
    "quarantine": "quarantine.path",
    "committer": "table.committer",
    "schema": "schema.ddl",
    "infer": "schema.infer",
    "hints": "schema.hints",
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
    """Started when it is first asked for; stopped in the end if it was started here."""
    with LazySession(config.spark_conf, with_delta=config.table.committer == "delta-spark") as session:
        yield session


def request_for(config: Config, session: LazySession) -> Request:
    return make_request(config, session.get, settings_of(None))


@contextmanager
def request_of(options: argparse.Namespace) -> Iterator[Request]:
    config = config_of(options)
    with session_for(config) as session:
        yield request_for(config, session)


def job_for(options: argparse.Namespace, config: Config, session: LazySession) -> Job:
    request = request_for(config, session)
    return make_job(
        request.config,
        pipeline=options.pipeline,
        start_from=getattr(options, "start_from", None),
        adopts=getattr(options, "adopt", False),
        reads_again=getattr(options, "reads_again", False),
        max_batches=getattr(options, "max_batches", None),
        accepts_quarantine_loss=getattr(options, "accept_quarantine_loss", False),
        spark_settings=request.spark_settings,
        session=request.session,
    )


@contextmanager
def job_of(options: argparse.Namespace) -> Iterator[Job]:
    """The job that is asked for. If a session was started for it, or for its committer, it is stopped in the end."""
    config = config_of(options)
    with session_for(config) as session:
        yield job_for(options, config, session)
