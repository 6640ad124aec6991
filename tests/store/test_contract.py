"""What every store does alike: local disk, S3, GCS, Azure and memory."""

from __future__ import annotations

import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from blizzard.core.kinds import Kind
from blizzard.core.late import Scope
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import ConfigError, Temporary
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.store.files import FileChanged, Store
from blizzard.store.ranges import RANGE_BYTES
from tests.store.conftest import Place, kinds, place_of

# Each of these has a meaning somewhere: in a URL, in a shell, for gcsfs or for adlfs.
NAMES = [
    *("plain", "with space", " edges ", "per%cent", "%2F", "%41", "plus+", "hash#1", "#123", "question?a=b&c"),
    *(
        "x?versionid=1",
        "day=2024-01-01/part",
        "amp&;,:@!$'()*",
        "[a]{b}",
        "a~b^c|d`e",
        'quo"te',
        "<tag>",
        "é",
        "ｚ",
        "😀",
    ),
    *("a-b/x", "a.b", "a/x", "a0", "A", "_x", ".hidden", "deep/er/and/deeper"),
]


def write(store: Store, name: str, content: bytes) -> None:
    sink = store.create(name)
    sink.target.write(content)
    assert sink.tell() == len(content)
    sink.close()


def there(store: Store, name: str) -> SourceFile:
    file = store.stat(name)
    assert file is not None
    return file


def piece_of(file: SourceFile) -> Slice:
    return Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)


def random_bytes(size: int) -> bytes:
    return os.urandom(1 << 16) * (size >> 16) + os.urandom(size & 0xFFFF)


def test_any_name_is_written_found_listed_read_and_deleted(store: Store) -> None:
    for name in NAMES:
        write(store, name, name.encode())
    assert sorted(file.path for file in store.walk()) == sorted(NAMES)
    for file in store.walk():
        assert store.stat(file.path) == file
        assert store.read(file.path) == file.path.encode()
        with store.open_pinned(piece_of(file)) as opened:
            assert opened.read() == file.path.encode()
        with store.open_seekable(file.path) as seekable:
            assert seekable.read() == file.path.encode()
    for name in NAMES:
        assert store.delete(name)
        assert store.stat(name) is None
    assert list(store.walk()) == []


def test_a_key_is_a_text_and_no_path_where_the_store_takes_it_so(place: Place) -> None:
    if not place.is_flat:
        pytest.skip("its names are paths")
    names = ["a", "a/b", "a//b", "a/b/", "/a"]
    for name in names:
        place.store.put(name, name.encode())
    assert sorted(file.path for file in place.store.walk()) == sorted(names)
    assert [place.store.read(name) for name in names] == [name.encode() for name in names]


def test_what_is_not_there(store: Store) -> None:
    assert store.stat("no") is None
    assert store.identity("no") is None
    assert store.read("no") is None
    assert store.names("no") == []
    assert list(store.walk("no")) == []
    assert store.delete("no") is False
    assert store.age_s("no") == float("inf")
    with pytest.raises(FileNotFoundError), store.open_seekable("no"):
        pass
    with pytest.raises(FileChanged), store.open_pinned(Slice(path="no", size_bytes=1, etag="1", from_record=0)) as file:
        file.read()


def test_a_folder_is_no_file(store: Store) -> None:
    write(store, "folder/file", b"x")
    assert store.stat("folder") is None
    assert store.names("folder") == ["file"]
    assert [file.path for file in store.walk()] == ["folder/file"]


def test_names_right_in_a_folder_in_byte_order_after_a_name(store: Store) -> None:
    for name in ["log/b", "log/a", "log/c", "log/é", "log/ｚ", "log/😀", "log/deeper/x", "logs/no", "log.no", "z"]:
        write(store, name, b"x")
    everything = sorted(["a", "b", "c", "é", "ｚ", "😀"], key=str.encode)
    assert store.names("log") == everything
    assert store.names("log", after="b") == everything[2:]
    assert store.names("log", after="b0") == everything[2:]
    assert store.names("log", after="😀") == []


def test_a_walk_of_a_folder_stays_in_it(store: Store) -> None:
    for name in ["a/1", "a/b/2", "ab/3", "a.4", "5"]:
        write(store, name, b"x")
    assert sorted(file.path for file in store.walk("a")) == ["a/1", "a/b/2"]
    assert sorted(file.path for file in store.walk()) == sorted(["a/1", "a/b/2", "ab/3", "a.4", "5"])


@pytest.mark.parametrize("after", ["", "day=1/a", "day=1/zz", "day=10/b/2", "day=2", "day=2/", "m", "zz"])
def test_an_object_store_lists_after_a_name(place: Place, after: str) -> None:
    store: Any = place.store
    if place.kind == "local":
        pytest.skip("a folder is always listed whole")
    names = [
        "day=1/a",
        "day=1/b",
        "day=10/a",
        "day=10/b/1",
        "day=10/b/2",
        "day=10/b/3",
        "day=10/c",
        "day=2/a",
        "m",
        "z",
    ]
    for name in names:
        store.put(name, b"x")
    assert sorted(file.path for file in store.listed(after=after)) == [n for n in sorted(names) if n > after]


def test_more_names_than_fit_on_a_page(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    if place.kind in ("local", "memory"):
        pytest.skip("it has no pages")
    monkeypatch.setattr("blizzard.store.azure._PAGE_NAMES", 100)
    store: Any = place.store
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: store.put(f"{i:05d}", b""), range(1001)))
    assert [file.path for file in store.listed()] == [f"{i:05d}" for i in range(1001)]


@pytest.mark.parametrize("kind", kinds("gcs", "azure"))
def test_a_source_of_many_folders_is_listed_whole_after_a_name_and_part_by_part(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.store.azure._PAGE_NAMES", 100)
    place = place_of(kind, request)
    names = [f"year={y}/region={r}/{i:03d}.ndjson" for y in (1, 2) for r in ("eu", "us") for i in range(260)]
    names += ["year=1/loose.ndjson", "z.ndjson"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: place.store.put(name, b"{}"), names))
    source = locate_source(place.root, None, place.access)
    assert [file.path for file in list_source(source)] == sorted(names)
    after = "year=1/region=us/250.ndjson"
    found = list_source(source, Scope(is_full=False, after={"": after}, also=("year=1/region=eu/007.ndjson",)))
    expected = ["year=1/region=eu/007.ndjson", *(name for name in sorted(names) if name > after)]
    assert [file.path for file in found] == expected
    parts = locate_source(place.root, None, place.access, marks_per="region")
    marks = {f"year={y}/region={r}/": f"year={y}/region={r}/257.ndjson" for y in (1, 2) for r in ("eu", "us")}
    found = list_source(parts, Scope(is_full=False, after={**marks, "": "year=1/loose.ndjson"}))
    assert [file.path for file in found] == sorted(
        ["z.ndjson", *(name for name in names if name.endswith(("258.ndjson", "259.ndjson")))]
    )


def test_ranges_of_a_file_that_is_several_ranges_long(store: Store) -> None:
    content = random_bytes(2 * RANGE_BYTES + 4321)
    write(store, "large", content)
    assert there(store, "large").size_bytes == len(content)
    with store.open_seekable("large") as file:
        for start, size in [(0, 10), (RANGE_BYTES - 5, 10), (len(content) - 7, 100), (12345, 0)]:
            file.seek(start)
            assert file.read(size) == content[start : start + size]
        file.seek(-8, io.SEEK_END)
        assert file.read() == content[-8:]
    with store.open_pinned(piece_of(there(store, "large"))) as opened:
        assert opened.read(3) == content[:3]
        assert opened.read() == content[3:]


def test_an_empty_file_is_a_file(store: Store) -> None:
    write(store, "empty", b"")
    assert there(store, "empty").size_bytes == 0
    assert store.read("empty") == b""
    with store.open_pinned(piece_of(there(store, "empty"))) as opened:
        assert opened.read() == b""


@pytest.mark.parametrize("change", ["same size", "longer", "deleted"])
def test_a_file_changed_after_it_was_listed_is_not_read(store: Store, change: str) -> None:
    store.put("a", b"old\n")
    piece = piece_of(there(store, "a"))
    _change(store, change, b"old\n")
    with pytest.raises(FileChanged), store.open_pinned(piece) as file:
        assert b"new" not in file.read()


@pytest.mark.parametrize("change", ["same size", "longer", "deleted"])
def test_a_file_changed_while_it_is_read_is_told_before_its_end(place: Place, change: str) -> None:
    store = place.store
    if place.kind == "local" and change != "longer":
        pytest.skip("an open file stays what it was")
    old = random_bytes(3 * RANGE_BYTES)
    store.put("a", old)
    with pytest.raises(FileChanged), store.open_pinned(piece_of(there(store, "a"))) as file:
        assert file.read(1000) == old[:1000]
        if place.kind == "local":
            with open(os.path.join(place.root, "a"), "ab") as grown:
                grown.write(b"more")
        else:
            _change(store, change, old)
        while file.read(1 << 20):
            pass


def _change(store: Store, change: str, old: bytes) -> None:
    time.sleep(0.01)
    if change == "deleted":
        store.delete("a")
    else:
        store.put("a", b"new" + old[3:] + (b"new" if change == "longer" else b""))


@pytest.mark.parametrize(
    "error",
    [
        Temporary("the upload failed", kind=Kind.STORE_UNAVAILABLE),
        ConfigError("no right to write", kind=Kind.ACCESS_DENIED),
        FileNotFoundError("the table's folder is gone"),
        FileChanged("another file changed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_somebody_else_is_not_blamed_on_the_file_that_is_read(store: Store, error: Exception) -> None:
    """While a source file is open, rows of it are written elsewhere. That can fail too."""
    store.put("a", b"content")
    with pytest.raises(type(error)) as raised, store.open_pinned(piece_of(there(store, "a"))) as file:
        assert file.read(3) == b"con"
        raise error
    assert raised.value is error


def test_what_was_fetched_before_it_is_asked_for_is_the_same(store: Store) -> None:
    pieces = []
    for number in range(20):
        store.put(f"{number:02d}", b"%d" % number * 100)
        pieces.append(piece_of(there(store, f"{number:02d}")))
    for i, piece in enumerate(pieces):
        store.prefetch(pieces[i + 1 :])
        with store.open_pinned(piece) as file:
            assert file.read() == b"%d" % i * 100


def test_what_was_fetched_ahead_does_not_hide_a_change(store: Store) -> None:
    store.put("a", b"old")
    piece = piece_of(there(store, "a"))
    time.sleep(0.01)
    store.put("a", b"new and longer")
    store.prefetch([piece])
    with pytest.raises(FileChanged), store.open_pinned(piece) as file:
        file.read()


def test_a_new_file_has_a_new_identity_even_with_the_same_bytes(place: Place) -> None:
    store = place.store
    store.put("a", b"same")
    before = store.identity("a")
    assert store.identity("a") == before
    # Of the same bytes S3 makes the same etag; its times are whole seconds.
    time.sleep(1.1 if place.kind == "s3" else 0.01)
    store.put("a", b"same")
    assert store.identity("a") != before


def test_a_put_replaces_the_whole_file(store: Store) -> None:
    store.put("a", b"a long first content")
    store.put("a", b"short")
    assert store.read("a") == b"short"


def test_of_many_who_create_a_name_at_once_exactly_one_does(store: Store) -> None:
    for round_ in range(5):
        barrier = threading.Barrier(6)

        def create(number: int, name: str = f"{round_}.json", barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return store.put_if_absent(name, b"%d" % number)

        with ThreadPoolExecutor(6) as pool:
            created = list(pool.map(create, range(6)))
        assert created.count(True) == 1
        assert store.read(f"{round_}.json") == b"%d" % created.index(True)
        assert store.put_if_absent(f"{round_}.json", b"later") is False


@pytest.mark.parametrize("size", [10, RANGE_BYTES, 2 * RANGE_BYTES + 11])
def test_a_file_is_seen_when_it_is_closed_and_never_when_it_is_aborted(place: Place, size: int) -> None:
    store = place.store
    content = random_bytes(size)
    for ending in ("abort", "close"):
        sink = store.create("folder/new")
        for start in range(0, size, 3_000_000):
            sink.target.write(content[start : start + 3_000_000])
        if place.kind != "local":  # there it has the name that nobody else will use
            assert store.stat("folder/new") is None
            assert list(store.walk()) == []
        sink.abort() if ending == "abort" else sink.close()
        sink.abort()  # of what has ended already: nothing
        assert store.read("folder/new") == (content if ending == "close" else None)
        assert len(list(store.walk())) == (ending == "close")


def test_a_file_that_is_forgotten_is_never_seen(place: Place) -> None:
    if place.kind in ("local", "memory"):
        pytest.skip("it is written under its name, or closed by fsspec")
    sink = place.store.create("new")
    sink.target.write(b"half")
    del sink
    assert place.store.stat("new") is None


def test_a_copy_goes_below_another_root_and_replaces_what_is_there(place: Place) -> None:
    store = place.store
    content = random_bytes(RANGE_BYTES + 5)
    write(store, "day=1/a#b %.ndjson", content)
    other = f"{place.root}-archive"
    for _ in range(2):
        store.copy("day=1/a#b %.ndjson", f"{other}/day=1/a#b %.ndjson")
    assert open_store(other, place.access).read("day=1/a#b %.ndjson") == content
    assert store.read("day=1/a#b %.ndjson") == content


def test_age_is_told_by_the_clock_that_dates_the_files(store: Store) -> None:
    store.make_root()
    store.put("a", b"x")
    assert -2 < store.age_s("a") < 5
    assert abs(store.now_ms() - time.time() * 1000) < 5000
    assert abs(there(store, "a").seen_ms - store.now_ms()) < 5000


def test_threads_share_a_store(store: Store) -> None:
    def work(number: int) -> bytes | None:
        store.put(f"{number}", b"%d" % number)
        return store.read(f"{number}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(40))) == [b"%d" % number for number in range(40)]


def test_a_forked_process_opens_the_store_for_itself(place: Place) -> None:
    if place.kind == "memory":
        pytest.skip("its memory is not shared")
    place.store.put("a", b"from the parent")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, open_store(place.root, place.access).read("a") or b"nothing")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        assert said.read() == b"from the parent"
    os.waitpid(child, 0)


def test_only_the_version_that_was_looked_at_is_deleted(store: Store) -> None:
    store.put("a", b"one")
    seen = store.stat("a")
    assert seen is not None
    store.put("a", b"two!")
    with pytest.raises(FileChanged):
        store.delete_version(seen)
    assert store.read("a") == b"two!"
    now = store.stat("a")
    assert now is not None
    assert store.delete_version(now)
    assert store.read("a") is None
    assert not store.delete_version(now)
