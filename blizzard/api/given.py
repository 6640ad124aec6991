"""From the arguments of a function to a configuration, and from its errors to the words of Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from blizzard.api.log import LoggedEvents
from blizzard.config.file import read_config_file, split_name
from blizzard.config.load import Config, make_config
from blizzard.config.targets import keys_of_targets, place_flags
from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, ConfigError, known_failure
from blizzard.operate import opening
from blizzard.run.assemble import Assembly
from blizzard.spark.session import settings_of
from blizzard.text.arguments import in_python

P = ParamSpec("P")
R = TypeVar("R")


def spoken(function: Callable[P, R]) -> Callable[P, R]:
    """Errors of this function speak of arguments, not of flags; those of the operating system are ours as well."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BlizzardError as e:
            e.args = tuple(in_python(arg) if isinstance(arg, str) else arg for arg in e.args)
            e.further = tuple(map(in_python, e.further))
            raise
        except OSError as e:
            known = known_failure(e)
            if known is None:
                raise
            raise known from e

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a caller gave: the configuration of all targets, and what it cannot hold."""

    config: Config
    target: str | None
    schema: Any  # an object; None: it is in the configuration, or there is none
    schemas: Mapping[str, Any]  # the same of single targets
    pipeline: str | None

    @contextmanager
    def looking(self, *, accepts_quarantine_loss: bool = False) -> Iterator[Assembly]:
        """For a call on a table."""
        with opening.looking(
            self.config,
            self.target,
            LoggedEvents().see,
            accepts_quarantine_loss=accepts_quarantine_loss,
            spark_settings=_settings_of_running(),
        ) as assembly:
            yield assembly

    @contextmanager
    def ingesting(self, **wishes: Any) -> Iterator[Assembly]:
        """For a call on a table and its source. `wishes` are what `make_request` takes."""
        schema = self.schema if self.target is None else self.schemas.get(self.target, self.schema)
        with opening.ingesting(
            self.config,
            self.target,
            LoggedEvents().see,
            pipeline=self.pipeline,
            schema=schema,
            spark_settings=_settings_of_running(),
            **wishes,
        ) as assembly:
            yield assembly


def given(
    keys: Mapping[str, Any],
    *,
    config: str | None,
    options: Mapping[str, Any] | None,
    targets: Mapping[str, Mapping[str, Any]] | None,
    target: str | None = None,
    schema: Any = None,
    pipeline: str | None = None,
) -> Given:
    """The file, then `options`, then arguments: the later one wins, as on the command line. `keys` are the arguments
    that stand for keys of the configuration; None and False say nothing."""
    said = {key: value for key, value in keys.items() if value is not None and value is not False}
    if "table.path" in said and targets is not None:
        raise ConfigError("give table or targets, not both", kind=Kind.USAGE)
    if isinstance(schema, str):
        said["schema.ddl"], schema = schema, None
    of_targets, schemas = keys_of_targets(targets or {})
    base = {**({} if config is None else read_config_file(config)), **(options or {}), **of_targets}
    # What is said for all targets gives way to what a target says itself.
    is_for_all = targets is not None and target is None
    both = {**base, **said} if is_for_all else place_flags(base, said, target)
    if pipeline is None and config is not None:
        pipeline = split_name(config)[1]
    return Given(config=make_config(both), target=target, schema=schema, schemas=schemas, pipeline=pipeline)


def _settings_of_running() -> dict[str, str]:
    """Of the session that runs in this process, so that a look gets to a store as a run does."""
    if "pyspark.sql.session" not in sys.modules:
        return settings_of(None)
    from pyspark.sql import SparkSession

    return settings_of(SparkSession.getActiveSession())
