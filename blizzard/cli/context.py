"""From a command's options to its request and parts. Flags, `--set` and the file are read here, for all commands."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from typing import Any

from blizzard.config.load import Config, load_config
from blizzard.config.request import Request, make_request
from blizzard.core.events import Emit, unheard
from blizzard.operate import opening
from blizzard.operate.opening import session_for
from blizzard.run.assemble import Assembly, resolve_table
from blizzard.spark.session import LazySession, settings_of

__all__ = ["config_of", "config_of_one", "ingesting", "looking", "request_to_ingest", "session_for"]

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
    """The file, then `--set`, then flags: the later one wins. With several targets, that of all of them."""
    flags = {key: getattr(options, name, None) for name, key in FLAGS.items()}
    return load_config(
        file=options.config, assignments=tuple(options.assignments), flags=flags, target=_target_of(options)
    )


def config_of_one(options: argparse.Namespace) -> Config:
    """Of one table. Where there are several targets, `--target` must name one."""
    return opening.chosen(config_of(options), _target_of(options))


def _target_of(options: argparse.Namespace) -> str | None:
    name: str | None = getattr(options, "target", None)
    return name


def request_to_ingest(options: argparse.Namespace, config: Config, session: LazySession) -> Request:
    return make_request(resolve_table(config, session), spark_settings=settings_of(None), **_wishes_of(options))


def _wishes_of(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "pipeline": options.pipeline,
        "start_from": getattr(options, "start_from", None),
        "adopts": getattr(options, "adopt", False),
        "reads_again": getattr(options, "reads_again", False),
        "max_batches": getattr(options, "max_batches", None),
        "accepts_quarantine_loss": getattr(options, "accept_quarantine_loss", False),
    }


def looking(
    options: argparse.Namespace, emit: Emit = unheard, *, takes_all: bool = False
) -> AbstractContextManager[Assembly]:
    """For a command on a table. `takes_all`: if there are several targets and none is named, it is for all of them."""
    return opening.looking(
        config_of(options),
        _target_of(options),
        emit,
        takes_all=takes_all,
        accepts_quarantine_loss=getattr(options, "accept_quarantine_loss", False),
    )


def ingesting(
    options: argparse.Namespace, emit: Emit = unheard, *, takes_all: bool = False
) -> AbstractContextManager[Assembly]:
    """For a command on a table and its source, both given as for a run. `takes_all`: as for `looking`."""
    return opening.ingesting(config_of(options), _target_of(options), emit, takes_all=takes_all, **_wishes_of(options))
