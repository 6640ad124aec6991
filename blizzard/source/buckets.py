"""Lists a source in an object store: after a name, page by page, and many folders at once if there are many.

A short listing is one request. Only when a page is full, the folders after it are found and listed in parallel. So an
ordinary run asks only for the pages with new names.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Full, Queue
from threading import Event

from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.left_out import NONE_LEFT_OUT, LeftOutCount
from blizzard.core.position import prefix_of
from blizzard.core.types import Listing, SourceFile
from blizzard.errors import BadFile
from blizzard.source.chosen import Chosen
from blizzard.source.uri import SourceLocation
from blizzard.store.files import Pages, Store
from blizzard.store.uri import join

_AT_ONCE = 8
_PAGES_AHEAD = 64
_LEVELS = 3
_DEPTH_OF_PARTS = 4
_WAIT_S = 0.05


def list_bucket(source: SourceLocation, chosen: Chosen, scope: Scope = EVERYTHING) -> Listing:
    left_out = LeftOutCount()
    paths: list[str] = []
    sizes, seen_ms = array("q"), array("q")
    etags: list[str] = []
    for file in _wanted(_in_scope(source, scope, chosen), chosen, source, left_out):
        paths.append(file.path)
        sizes.append(file.size_bytes)
        etags.append(file.etag)
        seen_ms.append(file.seen_ms)
    return Listing(paths, sizes, etags, seen_ms, left_out=left_out.total if source.only is None else NONE_LEFT_OUT)


def _in_scope(source: SourceLocation, scope: Scope, chosen: Chosen) -> Iterator[SourceFile]:
    store, marks_per = source.store, source.identity.marks_per
    if scope.is_full:
        yield from _listed(store, "")
        return
    for name in scope.also:
        # The names come from the log: ask only for names that a listing would show.
        file = store.stat(name) if chosen.takes_name(name) else None
        if file is not None:
            yield file
    if marks_per is not None and store.paging is not None:
        yield from _list_parts(store.paging, marks_per, scope)
        return
    # A store without paging is listed from the smallest name that any part needs.
    named = set(scope.also)
    for file in _listed(store, min(scope.after.values(), default="") if marks_per is not None else scope.after[""]):
        if file.path not in named and file.path > scope.after.get(prefix_of(file.path, marks_per), ""):
            yield file


def _list_parts(pages: Pages, marks_per: str, scope: Scope) -> Iterator[SourceFile]:
    """Each part after its own mark, all in parallel; a new part from its beginning."""
    parts, loose = _find_parts(pages, marks_per)
    # Files in parts that lie too deep to be found have marks of their own too.
    yield from (file for file in loose if file.path > scope.after.get(prefix_of(file.path, marks_per), ""))
    afters = {part: scope.after.get(part, "") for part in parts}
    yield from _list_folders(pages, afters)


def _find_parts(pages: Pages, marks_per: str) -> tuple[list[str], list[SourceFile]]:
    parts: list[str] = []
    loose: list[SourceFile] = []
    folders = [""]
    for _ in range(_DEPTH_OF_PARTS):
        inner: list[str] = []
        for folder in folders:
            for files, below, _ in pages(folder, delimiter="/"):
                loose += files
                for name in below:
                    is_part = name.removeprefix(folder).startswith(f"{marks_per}=")
                    (parts if is_part else inner).append(name)
        folders = inner
    for folder in folders:  # parts are not looked for below this depth
        for files, _, _ in pages(folder):
            loose += files
    return parts, loose


def _wanted(
    files: Iterable[SourceFile], chosen: Chosen, source: SourceLocation, left_out: LeftOutCount
) -> Iterator[SourceFile]:
    for file in files:
        name = file.path
        if not chosen.takes(file):
            if chosen.matches(name):
                left_out.filtered += 1
            elif not chosen.is_hidden(name):
                left_out.add_unmatched(name)
            continue
        if "\ufffd" in name or "\0" in name:
            raise BadFile(
                f"the key {join(source.root, name)!r} is not UTF-8, so no position can hold it. Rename the object.",
                kind=Kind.SOURCE_NAME,
            )
        yield file


def _listed(store: Store, after: str) -> Iterable[SourceFile]:
    return store.listed(after=after) if store.paging is None else _list_pages(store.paging, after)


def _list_pages(pages: Pages, after: str) -> Iterator[SourceFile]:
    for files, _, is_last in pages(after=after):
        yield from files
        if is_last:
            return
        if files:  # a page may be empty although others follow
            break
    reached = files[-1].path
    folders = yield from _descend(pages, reached)
    yield from _list_folders(pages, {f: reached if reached.startswith(f) else "" for f in folders})


def _list_folders(pages: Pages, folders: Mapping[str, str]) -> Iterator[SourceFile]:
    """The files of these folders; of each folder only those after the given name."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="blizzard-list") as pool:
        # Pages wait here until they are taken, so that a million names are never objects at once.
        found: Queue[list[SourceFile]] = Queue(maxsize=_PAGES_AHEAD)
        given_up = Event()
        listings = [pool.submit(_list_folder, pages, f, after, found, given_up) for f, after in folders.items()]
        try:
            while not all(listing.done() for listing in listings) or not found.empty():
                try:
                    yield from found.get(timeout=_WAIT_S)
                except Empty:
                    continue
        finally:
            given_up.set()  # nobody takes pages any more
        for listing in listings:
            listing.result()  # raises what went wrong


def _list_folder(pages: Pages, folder: str, after: str, found: Queue[list[SourceFile]], given_up: Event) -> None:
    for files, _, _ in pages(folder, after=after):
        while not given_up.is_set():
            try:
                found.put(files, timeout=_WAIT_S)
                break
            except Full:
                continue


def _descend(pages: Pages, reached: str) -> Generator[SourceFile, None, list[str]]:
    """Folders with names after `reached`, from a deeper level if there are too few to keep all threads busy. Yields the
    files beside them."""
    folders = [""]
    for _ in range(_LEVELS):
        inner: set[str] = set()
        for folder in folders:
            after = reached if reached.startswith(folder) else ""
            for files, below, _ in pages(folder, after=after, delimiter="/"):
                yield from files
                inner.update(below)
            # Some servers leave out the folder that contains the name to start after.
            name, slash, _ = after.removeprefix(folder).partition("/")
            if after and slash:
                inner.add(f"{folder}{name}/")
        folders = sorted(inner)
        if len(folders) == 0 or len(folders) >= _AT_ONCE:
            break
    return folders
