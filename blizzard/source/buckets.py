"""Listing a source in an object store: after a name, page by page, and many prefixes at once where there are many.

A short listing is one request. Only when a page is full are the folders after it found and listed side by side, so
that an ordinary run asks for the pages that hold new names and nothing else.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Full, Queue
from threading import Event
from typing import Any

from blizzard.core.types import Listing, SourceFile
from blizzard.errors import BadFile
from blizzard.source.uri import SourceLocation
from blizzard.store.files import Store
from blizzard.store.uri import join

_AT_ONCE = 8
_PAGES_AHEAD = 64
_LEVELS = 3
_WAIT_S = 0.05


def list_bucket(source: SourceLocation, matches: re.Pattern[str], *, after: str = "") -> Listing:
    paths: list[str] = []
    sizes, seen_ms = array("q"), array("q")
    etags: list[str] = []
    for file in _wanted(_listed(source.store, after), matches, source):
        paths.append(file.path)
        sizes.append(file.size_bytes)
        etags.append(file.etag)
        seen_ms.append(file.seen_ms)
    return Listing(paths, sizes, etags, seen_ms)


def _wanted(files: Iterable[SourceFile], matches: re.Pattern[str], source: SourceLocation) -> Iterator[SourceFile]:
    for file in files:
        name = file.path
        if name != source.only and (name[:1] in "_." or "/_" in name or "/." in name):
            continue
        if name.endswith("/") or not matches.match(name):
            continue  # an object that stands for a folder has no lines
        if "\ufffd" in name:
            raise BadFile(
                f"the key {join(source.root, name)!r} is not UTF-8, so no checkpoint can hold it. Rename the object.",
                kind="source_name",
            )
        yield file


def _listed(store: Store, after: str) -> Iterable[SourceFile]:
    pages: Any = getattr(store, "pages", None)
    if pages is None:
        return (file for file in store.walk() if file.path > after)
    return _list_pages(pages, after)


def _list_pages(pages: Any, after: str) -> Iterator[SourceFile]:
    """`pages` is that of S3: (prefix, after, delimiter) to pages of files and folders."""
    first = pages(after=after)
    files, _, is_last = next(first)
    yield from files
    if is_last:
        return
    reached = files[-1].path
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="blizzard-list") as pool:
        # A page waits here until it is taken: a million names are never held as objects.
        found: Queue[list[SourceFile]] = Queue(maxsize=_PAGES_AHEAD)
        folders, loose = _folders(pages, reached)
        yield from loose
        given_up = Event()
        listings = [pool.submit(_list_folder, pages, folder, reached, found, given_up) for folder in folders]
        try:
            while not all(listing.done() for listing in listings) or not found.empty():
                try:
                    yield from found.get(timeout=_WAIT_S)
                except Empty:
                    continue
        finally:
            given_up.set()  # nobody takes pages any more
        for listing in listings:
            listing.result()  # what went wrong in one of them


def _list_folder(pages: Any, folder: str, reached: str, found: Queue[list[SourceFile]], given_up: Event) -> None:
    for files, _, _ in pages(folder, after=reached if reached.startswith(folder) else ""):
        while not given_up.is_set():
            try:
                found.put(files, timeout=_WAIT_S)
                break
            except Full:
                continue


def _folders(pages: Any, reached: str) -> tuple[list[str], list[SourceFile]]:
    """Folders with names after `reached`: enough of them to keep all threads busy, if need be from a deeper level; and
    the files that lie beside them."""
    folders, loose = [""], []
    for _ in range(_LEVELS):
        inner: set[str] = set()
        for folder in folders:
            after = reached if reached.startswith(folder) else ""
            for files, below, _ in pages(folder, after=after, delimiter="/"):
                loose += files
                inner.update(below)
            # Some servers leave out the folder that they are told to begin inside of.
            name, slash, _ = after.removeprefix(folder).partition("/")
            if after and slash:
                inner.add(f"{folder}{name}/")
        folders = sorted(inner)
        if len(folders) == 0 or len(folders) >= _AT_ONCE:
            break
    return folders, loose
