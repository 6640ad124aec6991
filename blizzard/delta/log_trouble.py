"""Finds the log file that prevents opening a table, so that a person knows what to restore."""

from __future__ import annotations

import re

from blizzard.core.kinds import Kind
from blizzard.delta.log import LOG_FOLDER, commit_name, read_commit, read_file_actions
from blizzard.errors import Refused
from blizzard.store.files import Store
from blizzard.store.uri import join

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")


def find_log_trouble(store: Store) -> Refused | None:
    """The first commit after the newest checkpoint that is missing or damaged. None: there is none."""
    names = [file.path.removeprefix(f"{LOG_FOLDER}/") for file in store.walk(LOG_FOLDER)]
    commits = {int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))}
    covered = max((int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))), default=-1)
    for version in range(covered + 1, max(commits, default=covered) + 1):
        if version not in commits:
            return Refused(
                f"{join(store.root, commit_name(version))} is missing, though later commits are there. Nothing was"
                f" changed. Restore it from a backup.",
                kind=Kind.LOG_GAP,
            )
        try:
            read_commit(store, version)
            read_file_actions(store, version)
        except Refused as e:
            return e
    return None
