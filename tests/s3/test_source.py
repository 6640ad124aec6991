"""A source in a bucket: listed from where names are new, read under the etag that was listed, on a bad network too."""

from __future__ import annotations

import datetime
import gzip
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import botocore.auth
import pytest

from blizzard.core.late import EVERYTHING, LatePolicy, Scope
from blizzard.core.log import pipelines_of
from blizzard.core.plan import Limits
from blizzard.core.recover import StartFrom
from blizzard.core.retry import RetryPolicy
from blizzard.core.types import Slice
from blizzard.errors import BadData, BadFile, ConfigError, Temporary
from blizzard.source.listing import list_source
from blizzard.source.uri import SourceLocation, locate_source
from blizzard.store.access import make_access
from blizzard.store.files import FileChanged
from tests.ingesting import line
from tests.s3.endpoint import S3Endpoint
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import CutBody, Delay, HalfOpen, Reset, Status
from tests.s3.flows import FAST, BucketFlow, access_to
from tests.s3.server import Bucket, S3Server
from tests.s3.toxiproxy import ToxicProxy

pytestmark = pytest.mark.s3

LIST = r"list-type=2"


@pytest.fixture
def flow(s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy) -> BucketFlow:
    """The source is behind the proxy, the table is not."""
    return BucketFlow(bucket, fault_proxy, table_endpoint=s3_server)


def located(bucket: Bucket, endpoint: S3Endpoint, path: str = "src", **how: Any) -> SourceLocation:
    return locate_source(bucket.uri(path), None, access_to(endpoint), **how)


def names(source: SourceLocation, scope: Scope = EVERYTHING) -> list[str]:
    return [file.path for file in list_source(source, scope)]


def put_names(bucket: Bucket, *keys: str) -> None:
    bucket.put_files((key, b"{}\n") for key in keys)


def test_names_are_listed_in_the_byte_order_of_the_store_whatever_is_in_them(
    s3_server: S3Server, bucket: Bucket
) -> None:
    keys = ["a-b/x", "a.b", "a/x", "a/é", "a/ｚ", "a/😀", "a0", "b c+d%&/e=1/#?:", "b/tail ", "z%2Fz"]
    put_names(bucket, *(f"src/{key}.ndjson" for key in keys), "src/_x.ndjson", "src/a/.y.ndjson", "src/other.txt")
    found = names(located(bucket, s3_server))
    assert found == sorted((f"{key}.ndjson" for key in keys), key=str.encode)
    flow = BucketFlow(bucket, s3_server)
    for key in keys:
        flow.src.put(f"{key}.ndjson", line(len(key)))
    assert flow.run().records == len(keys)
    assert flow.run().commits == 0


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_ways_to_write_s3_are_one_source(s3_server: S3Server, bucket: Bucket, scheme: str) -> None:
    put_names(bucket, "src/a.ndjson")
    source = locate_source(bucket.uri("src/", scheme=scheme), None, access_to(s3_server))
    assert source.identity.root == bucket.uri("src")
    assert names(source) == ["a.ndjson"]


def test_a_source_is_a_prefix_one_object_or_a_pattern(s3_server: S3Server, bucket: Bucket) -> None:
    put_names(bucket, "src/day=1/a.ndjson", "src/day=2/a.ndjson", "src/day=2/b.ndjson.gz", "srcs/x.ndjson")
    assert names(located(bucket, s3_server)) == ["day=1/a.ndjson", "day=2/a.ndjson", "day=2/b.ndjson.gz"]
    assert names(located(bucket, s3_server, "src/day=2/a.ndjson")) == ["a.ndjson"]
    assert names(located(bucket, s3_server, "src/day=*/a.ndjson")) == ["day=1/a.ndjson", "day=2/a.ndjson"]
    assert names(located(bucket, s3_server, "nothing")) == []


def test_an_ordinary_run_asks_for_the_pages_that_hold_new_names_and_no_others(
    flow: BucketFlow, fault_proxy: FaultProxy
) -> None:
    """A hundred thousand names, ten of them new."""
    old = (f"src/day={d:02d}/{i:05d}.ndjson" for d in range(20) for i in range(5000))
    flow.bucket.put_files((name, b"") for name in old)
    flow.put("day=20/00000.ndjson", 0, 1)
    flow.later_ms = 3 * 3600 * 1000
    flow.run(start_from=StartFrom(after="day=19/04999.ndjson"))
    assert fault_proxy.count("GET", LIST) >= 100
    for i in range(1, 11):
        flow.put(f"day=20/{i:05d}.ndjson", i, i + 1)
    fault_proxy.clear_log()
    summary = flow.run()
    assert (summary.records, summary.late_files) == (10, 0)
    assert fault_proxy.count("GET", LIST) == 1


def test_prefixes_are_listed_side_by_side_and_completely(s3_server: S3Server, bucket: Bucket) -> None:
    keys = [f"year={y}/hour={h:02d}/{i:03d}.ndjson" for y in (1, 2) for h in range(12) for i in range(120)]
    put_names(bucket, *(f"src/{key}" for key in keys), "src/year=1/loose.ndjson", "src/z.ndjson")
    assert names(located(bucket, s3_server)) == sorted([*keys, "year=1/loose.ndjson", "z.ndjson"])
    scope = Scope(is_full=False, after={"": "year=2/hour=10/050.ndjson"}, also=("year=1/hour=00/000.ndjson",))
    expected = ["year=1/hour=00/000.ndjson", *(k for k in keys if k > "year=2/hour=10/050.ndjson"), "z.ndjson"]
    assert names(located(bucket, s3_server), scope) == expected


def test_each_part_is_listed_after_its_own_mark(s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy) -> None:
    put_names(bucket, *(f"src/region={r}/{i:04d}.ndjson" for r in ("eu", "us") for i in range(1500)), "src/x.ndjson")
    source = located(bucket, fault_proxy, marks_per="region")
    after = {"region=eu/": "region=eu/1497.ndjson", "region=us/": "region=us/1498.ndjson", "": "w"}
    found = names(source, Scope(is_full=False, after=after))
    assert found == [
        *("region=eu/1498.ndjson", "region=eu/1499.ndjson", "region=us/1499.ndjson", "x.ndjson"),
    ]
    assert fault_proxy.count("GET", LIST) == 3


def late_flow(flow: BucketFlow) -> BucketFlow:
    flow.put("m.ndjson", 0, 3)
    flow.run()
    return flow


def test_late_and_rewritten_objects_are_found(flow: BucketFlow) -> None:
    late_flow(flow)
    flow.put("b.ndjson", 50, 53)
    assert flow.run().late_files == 1
    flow.put("m.ndjson", 7, 8)
    summary = flow.run()
    assert (summary.rewritten_files, summary.commits) == (1, 0)
    assert flow.ids() == [0, 1, 2, 50, 51, 52]


def test_a_late_object_behind_the_window_is_found_when_all_is_listed_again(flow: BucketFlow) -> None:
    late_flow(flow)
    flow.later_ms = 10_000
    window = LatePolicy(relist_max_names=0, grace_ms=2000)
    flow.put("n.ndjson", 3, 6)
    flow.run(late=window)
    flow.put("a.ndjson", 50, 53)
    assert flow.run(late=window).late_files == 0
    assert flow.run(late=replace(window, relist_every_ms=0)).late_files == 1
    assert flow.ids() == [*range(6), 50, 51, 52]


def pinned(flow: BucketFlow, name: str) -> tuple[Any, Slice]:
    file = flow.src.stat(name)
    assert file is not None
    return flow.src, Slice(path=name, size_bytes=file.size_bytes, etag=file.etag, from_record=0)


def test_a_large_object_is_streamed_in_ranges_and_a_broken_body_goes_on_where_it_broke(
    flow: BucketFlow, fault_proxy: FaultProxy
) -> None:
    content = b"".join(b'{"id":%d}\n' % i for i in range(1_500_000))
    flow.src.put("a.ndjson", content)
    store, piece = pinned(flow, "a.ndjson")
    fault_proxy.clear_log()
    cut = fault_proxy.add(CutBody(1_000_000), method="GET", path="a.ndjson", nth=2)
    with store.open_pinned(piece) as file:
        assert file.read() == content
    assert cut.acted == 1
    ranges = [request.range for request in fault_proxy.requests("GET", "a.ndjson")]
    size = 8 * 1024 * 1024
    assert [r for r in ranges if r and r.startswith("bytes=0-")] == [f"bytes=0-{size - 1}"]
    assert len(ranges) == -(-len(content) // size) + 1
    resumed = [r for r in ranges if r and int(r.removeprefix("bytes=").split("-")[0]) % size]
    assert len(resumed) == 1
    assert 0 < int(resumed[0].removeprefix("bytes=").split("-")[0]) % size <= 1_000_000


def test_an_object_rewritten_while_it_is_read_is_not_mixed(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    flow.src.put("a.ndjson", b"x" * 20_000_000)
    store, piece = pinned(flow, "a.ndjson")
    with pytest.raises(FileChanged), store.open_pinned(piece) as file:
        file.read(1000)
        flow.src.put("a.ndjson", b"y" * 20_000_000)
        while file.read(1 << 20):
            pass
    flow.put("a.ndjson", 0, 3)
    summary = flow.run(before_reading=lambda: flow.put("a.ndjson", 0, 2))
    assert (summary.commits, summary.held_files) == (0, 1)
    assert flow.run().records == 2


def test_an_object_deleted_between_listing_and_reading_stops_nothing(flow: BucketFlow) -> None:
    flow.put("a.ndjson", 0, 3)
    flow.put("b.ndjson", 3, 6)

    def delete() -> None:
        flow.src.delete("a.ndjson")

    summary = flow.run(before_reading=delete)
    assert (summary.records, summary.held_files) == (3, 1)
    assert flow.run().commits == 0
    assert flow.ids() == [3, 4, 5]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(503, "SlowDown"), "unavailable"),
        (Reset(), "unavailable"),
        (Status(403, "AccessDenied"), "unreadable"),
        (Status(403, "InvalidObjectState"), "archived"),
    ],
    ids=str,
)
def test_one_object_that_cannot_be_had_is_held_back_and_named_and_the_others_are_read(
    flow: BucketFlow, fault_proxy: FaultProxy, fault: Any, kind: str
) -> None:
    late_flow(flow)
    flow.put("n.ndjson", 3, 6)
    flow.put("o.ndjson", 6, 9)
    fault_proxy.add(fault, method="GET", path=r"/src/n.ndjson$")
    summary = flow.run()
    assert (summary.records, summary.held_files) == (3, 1)
    position = newest_state_of(flow)
    assert position.seen.held_back["n.ndjson"].startswith(kind)
    fault_proxy.remove_rules()
    assert flow.run().records == 3
    assert flow.ids() == list(range(9))


def newest_state_of(flow: BucketFlow) -> Any:
    return pipelines_of(flow.open().scan_back())["p"][1]


def test_an_object_that_is_half_there_is_tried_three_times_and_told(
    flow: BucketFlow, fault_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    flow.put("a.ndjson", 0, 3)
    rule = fault_proxy.add(Status(503, "SlowDown"), method="GET", path=r"/src/a.ndjson$")
    with pytest.raises(Temporary) as error:
        flow.run()
    assert (error.value.kind, rule.acted) == ("store_unavailable", 3)
    told = [record.getMessage() for record in caplog.records if record.name == "blizzard.retry"]
    assert any("attempt 2/3 in" in message for message in told)
    assert any("attempt 3/3 in" in message for message in told)


def test_a_server_that_never_answers_is_given_up_after_the_timeout(
    flow: BucketFlow, fault_proxy: FaultProxy, s3_server: S3Server
) -> None:
    flow.put("a.ndjson", 0, 3)
    fault_proxy.add(HalfOpen(), method="GET", path=LIST)
    retry = RetryPolicy(attempts=2, base_ms=1, max_ms=2)
    access = access_to(fault_proxy, retry=retry, read_timeout_s=0.5)
    started = time.monotonic()
    with pytest.raises(Temporary) as error:
        names(locate_source(flow.bucket.uri("src"), None, access))
    assert error.value.kind == "store_unavailable"
    assert time.monotonic() - started < 50  # with the timeout of every run it takes twice 30


def refusal(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises((ConfigError, BadFile, BadData, Temporary)) as error:
        call()
    return error.value.kind, str(error.value)


@pytest.mark.parametrize(
    ("status", "code", "kind", "advice"),
    [
        (404, "NoSuchBucket", "no_bucket", "no such bucket"),
        (403, "AccessDenied", "access_denied", "rights"),
        (301, "PermanentRedirect", "wrong_region", "AWS_REGION"),
        (400, "AuthorizationHeaderMalformed", "wrong_region", "AWS_REGION"),
        (403, "RequestTimeTooSkewed", "clock_skew", "clock"),
        (403, "InvalidAccessKeyId", "bad_credentials", "credentials"),
        (400, "ExpiredToken", "bad_credentials", "expired"),
    ],
)
def test_what_a_retry_would_not_mend_is_said_at_once_and_says_what_to_do(
    flow: BucketFlow, fault_proxy: FaultProxy, status: int, code: str, kind: str, advice: str
) -> None:
    rule = fault_proxy.add(Status(status, code), method="GET", path=LIST)
    found, text = refusal(lambda: names(located(flow.bucket, fault_proxy)))
    assert found == kind
    assert advice in text
    assert rule.acted <= 2  # s3fs asks a redirected bucket for its region


def test_a_bucket_that_is_not_there_and_keys_that_do_not_fit_are_said_by_the_real_server_too(
    s3_server: S3Server, bucket: Bucket
) -> None:
    nowhere = locate_source("s3://no-such-bucket-here/src", None, access_to(s3_server))
    assert refusal(lambda: names(nowhere))[0] == "no_bucket"
    wrong = make_access({**s3_server.storage_options, "AWS_SECRET_ACCESS_KEY": "wrong"}, retry=FAST)
    kind, text = refusal(lambda: names(locate_source(bucket.uri("src"), None, wrong)))
    assert kind in ("bad_credentials", "access_denied")
    assert "wrong" not in text


def test_a_clock_that_is_an_hour_off_is_said(
    s3_server: S3Server, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = botocore.auth.get_current_datetime
    hour = datetime.timedelta(hours=1)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *given, **more: real(*given, **more) - hour)
    assert refusal(lambda: names(located(bucket, s3_server)))[0] == "clock_skew"


def test_a_key_that_is_not_utf8_is_named(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    path = flow.bucket.folder / "src"
    path.mkdir()
    with open(os.path.join(os.fsencode(path), b"bad-\xff.ndjson"), "wb"):
        pass
    kind, text = refusal(lambda: names(located(flow.bucket, fault_proxy)))
    assert kind == "source_name"
    assert "UTF-8" in text


@pytest.mark.parametrize("round_", range(10))
def test_ingest_while_the_network_cuts_connections(
    s3_server: S3Server, bucket: Bucket, toxiproxy: ToxicProxy, round_: int
) -> None:
    direct = BucketFlow(bucket, s3_server)
    for number in range(12):
        content = b"".join(map(line, range(200 * number, 200 * number + 200)))
        direct.src.put(f"{number:02d}.ndjson.gz", gzip.compress(content))
    toxiproxy.add("reset_peer", toxicity=0.05, timeout=0)
    toxiproxy.add("latency", toxicity=0.1, latency=20)
    flow = BucketFlow(bucket, toxiproxy, retry=RetryPolicy(attempts=5, base_ms=5, max_ms=20))
    for _ in range(8):
        try:
            flow.run(limits=Limits(max_files=3))
        except Temporary:
            continue
    BucketFlow(bucket, s3_server).run()
    assert direct.ids() == list(range(2400))


def test_requests_for_small_objects_overlap(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    """While the first one waits for its answer, others are asked for."""
    for number in range(40):
        flow.put(f"{number:02d}.ndjson", number, number + 1)
    first = fault_proxy.add(Delay(60), method="GET", path=r"/00\.ndjson$", nth=1)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(flow.run, slots=1)
        given_up = time.monotonic() + 30
        while len(fault_proxy.requests("GET", r"\.ndjson$")) < 4 and time.monotonic() < given_up:
            time.sleep(0.02)
        under_way = len(fault_proxy.requests("GET", r"\.ndjson$"))
        first.release()
        assert run.result().records == 40
    assert under_way >= 4
