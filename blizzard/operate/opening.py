"""From a configuration to the parts of one call, for the command line and for Python: a session that is started only if
it is needed, and one table out of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from blizzard.config.load import Config
from blizzard.config.request import Request, make_request
from blizzard.config.targets import require_one_table
from blizzard.core.events import Emit, unheard
from blizzard.run.assemble import Assembly, resolve_table
from blizzard.spark.session import LazySession, settings_of


@contextmanager
def session_for(config: Config) -> Iterator[LazySession]:
    """Started when it is first asked for; stopped at the end if it was started here."""
    with LazySession(config.spark_conf, with_delta=config.commits_by_spark) as session:
        yield session


def chosen(config: Config, target: str | None, *, takes_all: bool = False) -> Config:
    """Of one table. `takes_all`: if there are several targets and none is named, it is for all of them."""
    if target is None and not takes_all:
        require_one_table(config.targets)
    return config.target(target)


@contextmanager
def looking(
    configured: Config,
    target: str | None,
    emit: Emit = unheard,
    *,
    takes_all: bool = False,
    accepts_quarantine_loss: bool = False,
    spark_settings: Mapping[str, str] | None = None,
) -> Iterator[Assembly]:
    """For a call on a table. `spark_settings` of a session that runs already are taken for its store."""
    config = chosen(configured, target, takes_all=takes_all)
    with session_for(config) as session:
        request = Request(
            config=resolve_table(config, session),
            spark_settings=settings_of(None) if spark_settings is None else spark_settings,
            accepts_quarantine_loss=accepts_quarantine_loss,
        )
        assembly = Assembly(request=request, session=session, emit=emit)
        with assembly.mirroring.finished():
            yield assembly


@contextmanager
def ingesting(
    configured: Config,
    target: str | None,
    emit: Emit = unheard,
    *,
    takes_all: bool = False,
    spark_settings: Mapping[str, str] | None = None,
    **wishes: Any,
) -> Iterator[Assembly]:
    """For a call on a table and its source, both given as for a run. `wishes` are what `make_request` takes."""
    config = chosen(configured, target, takes_all=takes_all)
    with session_for(config) as session:
        settings = settings_of(None) if spark_settings is None else spark_settings
        request = make_request(resolve_table(config, session), spark_settings=settings, **wishes)
        assembly = Assembly(request=request, session=session, emit=emit)
        if target is not None and request.pipeline is None and assembly.find_table() is None:
            # Its own table cannot say the name. All targets have one.
            all_targets = replace(assembly, request=replace(request, config=configured))
            assembly = replace(assembly, request=replace(request, pipeline=all_targets.pipeline_of_targets()))
        with assembly.mirroring.finished():
            yield assembly
