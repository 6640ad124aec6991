"""Moves the files that another program has read out of a source folder, so that blizzard can begin with the rest.

    python jobs/take_away_read_files.py SOURCE ARCHIVE --checkpoint FOLDER [--yes]   # of a Structured Streaming query
    python jobs/take_away_read_files.py SOURCE ARCHIVE --list FILE [--yes]           # one path or address in each line

Without --yes it only says what it would do. Run it while neither program runs; after a crash run it again. It takes any
location that fsspec knows: a path, s3://, gs://, abfs://.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import fsspec


class CannotGoOn(Exception):
    pass


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("archive")
    whence = parser.add_mutually_exclusive_group(required=True)
    whence.add_argument("--checkpoint", help="the query's checkpointLocation")
    whence.add_argument("--list", help="file with the paths that were read")
    parser.add_argument("--yes", action="store_true", help="move them")
    options = parser.parse_args(arguments)
    try:
        read = set(_read_by_query(options.checkpoint) if options.checkpoint else _listed(options.list))
        take_away(options.source, options.archive, read, really=options.yes)
    except CannotGoOn as e:
        sys.stderr.write(f"nothing was moved: {e}\n")
        return 2
    return 0


def take_away(source: str, archive: str, read: set[str], *, really: bool) -> None:
    fs, root = fsspec.url_to_fs(source)
    other, target = fsspec.url_to_fs(archive)
    root, target = root.rstrip("/"), target.rstrip("/")
    if type(other) is not type(fs):
        raise CannotGoOn(f"{archive} is not in the store of {source}: files are moved within one store")
    if f"{target}/".startswith(f"{root}/"):
        raise CannotGoOn(f"{archive} is inside of {source}: the files would be read again")
    read = {_plain(fs, path) for path in read}
    sizes = {path: info["size"] for path, info in fs.find(root, detail=True).items()}
    there = {path: target + path[len(root) :] for path in sizes if _plain(fs, path) in read}
    rest, gone = sizes.keys() - there, sorted(read - {_plain(fs, path) for path in there})
    if not there and rest:
        raise CannotGoOn(
            f"none of the {len(read)} files that were read is in {source}. If they are gone already, go on without this"
            f" step. Else give the folder that the other program reads; it has read for example {min(read, default='')}"
        )
    _check_names(gone, {_plain(fs, path) for path in rest})
    _check_archive({new: sizes[path] for path, new in there.items()}, fs.find(target, detail=True))
    verb = "moving" if really else "would move"
    sys.stdout.write(f"{verb} {len(there)} of {len(sizes)} files to {archive}: those that were read\n")
    if gone:
        sys.stdout.write(
            f"{len(gone)} that were read are not in {source}, for example {gone[0]}. Right if somebody has deleted or"
            f" moved them. If they are there under another spelling, stop: they would be read a second time\n"
        )
    for path, new in there.items() if really else ():
        fs.makedirs(new.rsplit("/", 1)[0], exist_ok=True)
        fs.mv(path, new)  # in a store: copied, then deleted
    if not really:
        sys.stdout.write("nothing was moved: --yes does it\n")


def _check_names(gone: list[str], rest: set[str]) -> None:
    """What is not recognised is read again, so a list that spells names in another way is refused."""
    for path in gone:
        if unquote(path) != path and unquote(path) in rest:
            raise CannotGoOn(
                f"{path} is not there, and {unquote(path)} is: the list has names as in a URL. Write them as they are"
            )


def _check_archive(moved: dict[str, int], archive: dict[str, Any]) -> None:
    """A file of the same size is a copy that a crash has left."""
    for new, size in moved.items():
        if new in archive and archive[new]["size"] != size:
            raise CannotGoOn(f"{new} is there already and has another size. Give another folder than this archive")


def _plain(fs: Any, path: str) -> str:
    """Without scheme: s3a://b/k and s3://b/k are one object."""
    return str(fs._strip_protocol(path.replace("s3a://", "s3://", 1))).rstrip("/")


def _read_by_query(checkpoint: str) -> Iterator[str]:
    """Every file that the query has read. A file that it has only planned is not in the table yet."""
    fs, root = fsspec.url_to_fs(checkpoint)
    batches, commits = (_numbers(fs, f"{root}/{name}") for name in ("offsets", "commits"))
    sources = [name for name in _names(fs, f"{root}/sources") if not name.startswith(".")]
    if not batches or len(sources) != 1:
        raise CannotGoOn(
            f"{checkpoint} is no checkpoint of a Structured Streaming query with one source, a folder of files"
        )
    newest, log = max(batches), f"{root}/sources/{sources[0]}"
    # The source names the files of a batch before the query begins it.
    *_, offset = fs.cat_file(f"{root}/offsets/{newest}").decode().splitlines()
    if newest not in commits or json.loads(offset).get("logOffset") != max(_numbers(fs, log)):
        raise CannotGoOn(
            "the query has planned files that it has not finished. Run it once more with trigger(availableNow=True),"
            " until it ends by itself"
        )
    for name in _names(fs, log):
        if not name.startswith("."):
            version, *entries = fs.cat_file(f"{log}/{name}").decode().splitlines()
            if version != "v1":
                raise CannotGoOn(f"{log}/{name} is written in the format {version!r}, which is not known here")
            yield from (unquote(json.loads(entry)["path"]) for entry in entries)


def _names(fs: Any, folder: str) -> list[str]:
    return [name.rstrip("/").rsplit("/", 1)[-1] for name in fs.ls(folder, detail=False)] if fs.exists(folder) else []


def _numbers(fs: Any, folder: str) -> set[int]:
    """Those of the batches in a log of Spark, compacted or not."""
    names = [name.removesuffix(".compact") for name in _names(fs, folder)]
    return {int(name) for name in names if name.isdigit()}


def _listed(file: str) -> Iterator[str]:
    with fsspec.open(file, "rt", encoding="utf-8") as lines:
        yield from (line.strip() for line in lines if line.strip())


if __name__ == "__main__":
    sys.exit(main())
