"""Documents as others have them, and what Python's own json says becomes of them. Nothing here parses with blizzard.

A number is kept as the text it was written in until its column says what it is, and an object as its members in order:
only so can the JSON text in a STRING column be compared.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

from blizzard.schema import DeltaType

EXACT = Context(prec=100)  # the default would round to 28 digits


class Number(str):
    """A number as written."""


class Members(list[tuple[str, Any]]):
    """An object as written."""


def parse(line: bytes) -> Members:
    parsed = json.loads(line, parse_int=Number, parse_float=Number, object_pairs_hook=Members)
    assert isinstance(parsed, Members)
    return parsed


def compact(value: Any) -> str:
    """JSON text without the whitespace."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Members):
        texts = []
        for name, item in value:
            texts.append(json.dumps(name, ensure_ascii=False) + ":" + compact(item))
        return "{" + ",".join(texts) + "}"
    if isinstance(value, list):
        texts = []
        for item in value:
            texts.append(compact(item))
        return "[" + ",".join(texts) + "]"
    return json.dumps(value, ensure_ascii=False)


def stored(value: Any, data_type: DeltaType) -> Any:
    """What a column of this type must give back for this value of a good record."""
    if value is None:
        return None
    match data_type:
        case {"type": "struct", "fields": fields}:
            assert isinstance(value, Members)
            given = dict(value)
            return {f["name"]: stored(given.get(f["name"]), f["type"]) for f in fields}
        case {"type": "array", "elementType": element}:
            assert isinstance(value, list)
            return [stored(item, element) for item in value]
        case {"type": "map", "valueType": of}:
            assert isinstance(value, Members)
            return [(key, stored(item, of)) for key, item in value]
        case "string":
            return value if isinstance(value, str) and not isinstance(value, Number) else compact(value)
        case _:
            return _stored_primitive(value, data_type)


def _stored_primitive(value: Any, data_type: str) -> Any:
    match data_type:
        case "boolean":
            assert isinstance(value, bool)
            return value
        case "byte" | "short" | "integer" | "long":
            return int(value)
        case "double":
            return float(value)
        case "binary":
            return base64.b64decode(value, validate=True)
        case "date":
            return date.fromisoformat(value)
        case "timestamp":
            return instant(value)
    assert data_type.startswith("decimal")
    scale = int(data_type[:-1].split(",")[1])
    return Decimal(int(Decimal(value).scaleb(scale, EXACT))).scaleb(-scale, EXACT)


def instant(text: str) -> datetime:
    """A timestamp in UTC, for the ways in which these documents write one."""
    text = text.replace(" ", "T").removesuffix("Z")
    day, _, clock = text.partition("T")
    sign = "-" if "-" in clock else "+"
    clock, _, offset = clock.partition(sign)
    seconds, _, fraction = clock.partition(".")
    moment = datetime.fromisoformat(f"{day}T{seconds or '00:00:00'}").replace(tzinfo=timezone.utc)
    moment += timedelta(microseconds=int(fraction.ljust(6, "0")[:6]) if fraction else 0)
    digits = offset.replace(":", "").ljust(4, "0")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return moment - ahead if sign == "+" else moment + ahead


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Lines of one file, the schema somebody would write for them, and a small one that is left to grow."""

    lines: list[bytes]
    ddl: str
    seed: str
    bad: dict[int, str] = field(default_factory=dict)  # under `ddl`: the index of the line, and the kind
    bad_for_seed: dict[int, str] = field(default_factory=dict)
    bad_for_all: dict[int, str] = field(default_factory=dict)  # whatever the schema
    never_columns: set[tuple[str, ...]] = field(default_factory=set)  # names that no table takes


GITHUB = Sample(
    ddl=(
        "id STRING NOT NULL, type STRING, actor STRUCT<id: BIGINT, login: STRING, gravatar_id: STRING, url: STRING>,"
        " repo STRUCT<id: BIGINT, name: STRING>, payload STRING, public BOOLEAN, created_at TIMESTAMP"
    ),
    seed="id STRING, payload STRUCT<action: STRING>",
    lines=[
        b'{"id":"41201","type":"PushEvent","actor":{"id":7301,"login":"ada","display_login":"ada","gravatar_id":"",'
        b'"url":"https:\\/\\/api.example\\/users\\/ada"},"repo":{"id":55,"name":"ada/engine","url":"u"},"payload":'
        b'{"push_id":15009001234,"size":2,"distinct_size":1,"ref":"refs/heads/main","head":"9af1","before":"00c2",'
        b'"commits":[{"sha":"9af1","author":{"email":"a@x","name":"Ada \\"L\\""},"message":"Fix\\n\\nDetails\\t",'
        b'"distinct":true},{"sha":"77aa","author":{"email":"a@x","name":"Ada"},"message":"","distinct":false}]},'
        b'"public":true,"created_at":"2024-02-29T23:59:59Z"}',
        b'{"id":"41202","type":"IssuesEvent","actor":{"id":7302,"login":"bob","gravatar_id":null},"repo":{"id":55},'
        b'"payload":{"action":"opened","issue":{"number":12,"title":"It \\u2764 breaks","labels":[{"name":"bug",'
        b'"color":"d73a4a","default":true}],"assignee":null,"assignees":[],"milestone":null,"closed_at":null,'
        b'"reactions":{"+1":3,"-1":0,"total_count":3},"body":null}},"public":true,"created_at":"2024-03-01T00:00:00Z"}',
        b'{"id":"41203","type":"WatchEvent","actor":{"id":7303,"login":"c"},"repo":{"id":56},"payload":{"action":'
        b'"started"},"public":true,"created_at":"2024-03-01T00:00:01Z","org":{"id":9,"login":"o"}}',
        b'{"id":"41204","type":"ForkEvent","actor":null,"repo":{"id":56},"payload":{"forkee":{"id":1,"topics":[],'
        b'"license":{"key":"mit","spdx_id":"MIT"},"pushed_at":"2024-01-01T00:00:00Z","permissions":{}}},"public":false,'
        b'"created_at":"2024-03-01T00:00:02Z"}',
        b'{"id":"41205","type":"PullRequestEvent","payload":{"action":"closed","number":3,"pull_request":{"merged":true,'
        b'"merged_at":"2024-03-01T00:00:02Z","merge_commit_sha":null,"head":{"ref":"x","repo":null}}},"public":true}',
        b'{"id":"41206","type":"CreateEvent","payload":{"ref":null,"ref_type":"repository","description":null,'
        b'"pusher_type":"user"}, "public" : true , "created_at":"2024-03-01T00:00:03Z"}',
        b'{"id":"41207","type":"PushEvent","payload":{"push_id":15009001235,"commits":[]},"created_at":"yesterday"}',
        b'{"id":null,"type":"GollumEvent","payload":{"pages":[{"page_name":"Home","action":"edited","title":"H"}]}}',
        b'{"id":"41209","type":"PushEvent","payload":{"push_id":15009001236,"commits":[{"sha":',
    ],
    bad={6: "bad_value", 7: "missing_value"},
    bad_for_all={8: "not_json"},
)

TWEETS = Sample(
    ddl=(
        "created_at STRING, id BIGINT, id_str STRING, text STRING, user STRUCT<id: BIGINT, name: STRING,"
        " location: STRING, verified: BOOLEAN>, entities STRUCT<hashtags: ARRAY<STRUCT<text: STRING,"
        " indices: ARRAY<INT>>>, urls: ARRAY<STRUCT<url: STRING, unwound: MAP<STRING, STRING>>>>, coordinates STRING,"
        " withheld_in_countries ARRAY<STRING>, favorite_count SMALLINT"
    ),
    seed="id_str STRING, entities STRUCT<hashtags: ARRAY<STRUCT<text: STRING>>>",
    lines=[
        b'{"created_at":"Wed Aug 27 13:08:45 +0000 2008","id":1050118621198921728,"id_str":"1050118621198921728",'
        b'"text":"caf\\u00e9 \\ud83d\\ude00\\ud83c\\uddeb\\ud83c\\uddf7 https:\\/\\/t.example\\/x","user":{"id":62,'
        b'"id_str":"6253282","name":"API \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb","location":null,'
        b'"verified":true},"entities":{"hashtags":[{"text":"caf\xc3\xa9","indices":[0,5]},{"text":"\\uD83D\\uDE00","indices":[6,7]}],'
        b'"symbols":[],"urls":[{"url":"u","unwound":{"status":200,"title":"T","description":null}}],'
        b'"user_mentions":[]},"geo":null,"coordinates":null,"place":null,"contributors":null,"is_quote_status":false,'
        b'"favorite_count":295,"lang":"en"}',
        b'{"id":"1050118621198921729","id_str":1050118621198921729,"text":"the id is a string here"}',
        b'{"id":1050118621198921730,"id_str":1050118621198921730,"text":"\xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7'
        b' \\u202e RTL \\u0000 NUL \\u001f \xe2\x80\xa8 \x7f","coordinates":{"type":"Point","coordinates":'
        b'[-73.990, 40.70]},"withheld_in_countries":["DE","FR",null],"user":{}}',
        b'{"id":3,"text":"half an emoji \\ud83d"}',
        b'{"id":4,"text":"halves in the wrong order \\ude00\\ud83d"}',
        b'{"id":5,"text":"cut \xf0\x9f\x98 short"}',
        b'{"id":6,"text":"","entities":{"hashtags":[null,{"text":null,"indices":[]}],"urls":[]},"favorite_count":40000}',
        b'{"id":7,"text":null,"entities":{"hashtags":[],"media":[{"sizes":{"thumb":{"w":150,"h":150,"resize":"crop"}},'
        b'"additional_media_info":{"monetizable":false}}]},"extended_entities":{"media":[{"video_info":{"variants":'
        b'[{"bitrate":832000,"content_type":"video/mp4"},{"content_type":"application/x-mpegURL"}]}}]}}',
    ],
    bad={1: "bad_value", 6: "bad_value"},
    bad_for_all={3: "not_json", 4: "not_json", 5: "not_utf8"},
)

GEOJSON = Sample(
    ddl="type STRING, id STRING, geometry STRUCT<type: STRING, coordinates: STRING>, properties MAP<STRING, STRING>,"
    " bbox ARRAY<DOUBLE>",
    seed="type STRING",
    lines=[
        b'{"type":"Feature","id":1,"geometry":{"type":"Point","coordinates":[13.4050,52.52]},"properties":{"name":"B"}}',
        b'{"type":"Feature","id":"w/2","geometry":{"type":"LineString","coordinates":[[102,0.0],[103.0,1e0]]},'
        b'"properties":{"lanes":2,"name":null,"oneway":true},"bbox":[102,0,103,1]}',
        b'{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[100.0,0.0],[101.0,0.0],[101.0,1.0],'
        b'[100.0,0.0]],[]]},"properties":{"tags":{"a":[1,{"b":null}]}}}',
        b'{"type":"Feature","geometry":{"type":"MultiPolygon","coordinates":[[[[180.0,40],[180.0,50]]],[[[-180,40]]]]},'
        b'"properties":null}',
        b'{"type":"Feature","geometry":null,"properties":{},"bbox":[]}',
        b'{"type":"Feature","geometry":{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[]}]},'
        b'"properties":{"twice":1,"twice":1}}',
        b'{"type":"Feature","geometry":[1,2],"properties":{}}',
    ],
    bad={6: "bad_value"},
    bad_for_all={5: "duplicate_key"},
)

POLYGONS = Sample(
    ddl="coordinates ARRAY<ARRAY<ARRAY<DOUBLE>>>, height DECIMAL(6,2)",
    seed="name STRING",
    lines=[
        b'{"coordinates":[[[100.0,0.0],[101,-0.0]],[]],"height":12.5}',
        b'{"coordinates":[[],[[]],null,[null,[null,1e-7]]],"height":"1e3"}',
        b'{"coordinates":[],"height":-0}',
        b'{"coordinates":[[1.5,2.5]],"height":1}',
        b'{"coordinates":[[[1.5,"2.5"]]],"height":1}',
        b'{"coordinates":null,"height":12.505}',
    ],
    bad={3: "bad_value", 4: "bad_value", 5: "bad_value"},
)

CLOUDTRAIL = Sample(
    ddl="eventVersion DECIMAL(4,2), eventTime TIMESTAMP, eventName STRING, userIdentity STRUCT<type: STRING,"
    " sessionContext: STRING>, requestParameters STRING, responseElements STRING, additionalEventData STRING,"
    " resources ARRAY<STRUCT<ARN: STRING, accountId: STRING>>, readOnly BOOLEAN",
    seed="eventVersion STRING, userIdentity STRUCT<type: STRING>",
    lines=[
        b'{"eventVersion":"1.08","eventTime":"2024-05-01T10:00:00Z","eventName":"RunInstances","userIdentity":{"type":'
        b'"AssumedRole","sessionContext":{"attributes":{"mfaAuthenticated":"false"},"sessionIssuer":{}}},'
        b'"requestParameters":{"instancesSet":{"items":[{"imageId":"ami-1","minCount":1}]},"blockDeviceMapping":{},'
        b'"monitoring":{"enabled":false}},"responseElements":null,"readOnly":false,"resources":[{"ARN":"arn:aws:s3:::b",'
        b'"accountId":123456789012,"type":"AWS::S3::Bucket"}]}',
        b'{"eventVersion":"1.08","eventTime":"2024-05-01T10:00:01Z","eventName":"PutObject","requestParameters":'
        b'{"bucketName":"b","Host":"h","key":"a \\"b\\"\\\\c\\/d","x-amz-acl":"private","acl":[""]},'
        b'"responseElements":{"x-amz-id-2":"Zm9v=","x-amz-version-id":null},"additionalEventData":{"bytesTransferredIn"'
        b': 1.0E3, "SSEApplied" : "Default_SSE_S3" },"resources":[]}',
        b'{"eventVersion":"1.08","eventTime":"2024-05-01T10:00:02Z","eventName":"Decrypt","requestParameters":'
        b'"{\\"keyId\\":\\"k\\"}","responseElements":[],"additionalEventData":"HIDDEN_DUE_TO_SECURITY_REASONS"}',
        b'{"eventVersion":1.08,"eventTime":"2024-05-01T10:00:03Z","requestParameters":{"same":1,"same":2},'
        b'"responseElements":false}',
        b'{"eventVersion":"1.08.1","eventTime":"2024-05-01T10:00:04Z"}',
        b'{"Records":[{"eventVersion":"1.08"},{"eventVersion":"1.08"}]}',
    ],
    bad={4: "bad_value"},
)

ENVELOPES = Sample(
    ddl="schema STRING, payload STRUCT<op: STRING, ts_ms: BIGINT, before: STRUCT<id: INT, body: BINARY>,"
    " after: STRUCT<id: INT, body: BINARY, price: BINARY>, source: MAP<STRING, STRING>>",
    seed="payload STRUCT<op: STRING, after: STRUCT<id: INT>>",
    lines=[
        b'{"schema":{"type":"struct","optional":false,"fields":[{"field":"id","type":"int32"},{"field":"body",'
        b'"type":"bytes"}]},"payload":{"op":"c","ts_ms":1714557600123,"before":null,"after":{"id":1,"body":"AAECAwT/",'
        b'"price":"AfQ="},"source":{"connector":"postgresql","lsn":24023128,"snapshot":"false","xmin":null}}}',
        b'{"schema":null,"payload":{"op":"u","ts_ms":1714557600124,"before":{"id":1,"body":""},"after":{"id":1,'
        b'"body":"\\u0041AE="},"source":{}}}',
        b'{"schema":null,"payload":{"op":"d","before":{"id":2147483647,"body":"/+8="},"after":null}}',
        b'{"schema":null,"payload":null}',
        b'{"payload":{"op":"c","after":{"id":2,"body":"AAE"}}}',
        b'{"payload":{"op":"c","after":{"id":3,"body":"_-8="}}}',
        b'{"payload":{"op":"c","after":{"id":4,"body":"AAF="}}}',
        b'{"payload":{"op":"c","after":{"id":5,"body":"QUJD\\nQUJD"}}}',
        b'{"payload":{"op":"c","after":{"id":2147483648,"body":"AAE="}}}',
        b'{"payload":"eyJvcCI6ImMifQ=="}',
    ],
    bad=dict.fromkeys(range(4, 10), "bad_value"),
    bad_for_seed={8: "bad_value", 9: "bad_value"},
)

NUMBERS = Sample(
    ddl="n BIGINT, d DOUBLE, e DECIMAL(38,0), f DECIMAL(38,18), s STRING",
    seed="s STRING",
    lines=[
        *(b'{"n":%d,"d":%d,"e":%d,"s":%d}' % (n, n, n, n) for n in (2**53 + 1, 2**63 - 1, -(2**63), 0, -1)),
        b'{"n":-0,"d":-0,"e":-0,"f":-0.0,"s":-0}',
        b'{"d":1e308,"s":1e308}',
        b'{"d":1.7976931348623157e308,"s":1.7976931348623157E+308}',
        b'{"d":5e-324,"s":4.9e-324}',
        b'{"d":1e-999,"f":0e-999,"s":1e-999}',
        b'{"d":0.30000000000000004,"f":0.30000000000000004,"s":0.1}',
        b'{"d":0.1,"f":0.1,"e":1.0e2,"s":9007199254740993.0}',
        b'{"d":9007199254740993,"e":99999999999999999999999999999999999999,"f":-99999999999999999999.999999999999999999}',
        b'{"e":"-99999999999999999999999999999999999999","f":"0.000000000000000001","s":"1.50"}',
        b'{"d":123456789012345678901234567890123456789012,"s":1.50}',
        b'{"d":1e23,"f":1e19,"s":' + b"9" * 5000 + b"}",
        *(b'{"n":%s}' % n for n in (b"9223372036854775808", b"-9223372036854775809", b"1.0")),
        b'{"d":1e309}',
        b'{"e":100000000000000000000000000000000000000}',
        b'{"f":0.0000000000000000001}',
        *(b'{"d":%s}' % d for d in (b"01", b"NaN", b"-Infinity", b".5", b"+1")),
    ],
    bad=dict.fromkeys(range(16, 22), "bad_value"),
    bad_for_all=dict.fromkeys(range(22, 27), "not_json"),
)

# Each becomes a column of the widest of its kinds: one kind of number alone in a column.
INTEGERS = Sample(
    ddl="long BIGINT, huge DECIMAL(38,0), mixed STRING, beyond STRING",
    seed="name STRING",
    lines=[
        b'{"long":9007199254740993,"huge":9223372036854775808,"mixed":9007199254740993,"beyond":1e309}',
        b'{"long":9223372036854775807,"huge":-99999999999999999999999999999999999999,"mixed":0.30000000000000004}',
        b'{"long":-9223372036854775808,"huge":1,"mixed":1e308,"beyond":0.10}',
        b'{"long":0,"huge":0,"mixed":-0.0,"beyond":7}',
    ],
)

TIMES = Sample(
    ddl="at TIMESTAMP, day DATE",
    seed="name STRING",
    lines=[
        b'{"at":"2024-02-29T23:59:59.123456Z","day":"2024-02-29"}',
        b'{"at":"2024-03-31T02:30:00+02:00","day":"0001-01-01"}',
        b'{"at":"2024-03-31T02:30:00.5-09:30","day":"9999-12-31"}',
        b'{"at":"1969-12-31T23:59:59.999999Z","day":"1969-12-31"}',
        b'{"at":"0001-01-01T00:00:00Z","day":"1582-10-10"}',
        b'{"at":"9999-12-31T23:59:59.999999+00:00","day":"1900-02-28"}',
        b'{"at":"2024-01-01T00:00:00.123456000Z"}',
        b'{"at":"2024-01-01 12:34:56"}',
        b'{"at":"2024-01-01"}',
        b'{"at":"2024-01-01T12:34:56+0530"}',
        b'{"at":"2024-01-01T00:00:00.1234567Z"}',
        b'{"at":"0001-01-01T00:00:00+01:00"}',
        b'{"at":"9999-12-31T23:59:59-01:00"}',
        b'{"at":"2024-01-01T24:00:00Z"}',
        b'{"at":"2016-12-31T23:59:60Z"}',
        b'{"at":1714557600}',
        *(b'{"day":"%s"}' % day for day in (b"2023-02-29", b"1900-02-29", b"2024-1-1", b"2024-01-01T00:00:00Z")),
    ],
    bad=dict.fromkeys(range(11, 20), "bad_value"),
)

# The same, and only what is a time to everybody: so that the columns are times without being told.
CLEAR_TIMES = Sample(ddl=TIMES.ddl, seed=TIMES.seed, lines=TIMES.lines[:7])

COMBINED, COMPOSED = "e\u0301t\u00e9", "\u00e9t\u00e9"
NAMES = Sample(
    ddl=f"`{COMPOSED}` BIGINT, `{COMBINED}` BIGINT, `user.name` STRING, user STRUCT<name: STRING, `a.b`: BIGINT>,"
    ' `it\'s` STRING, `say "hi"` STRING, `back``tick` STRING, `two words` STRING, `\u540d\u524d` STRING,'
    " `\U0001f600` BOOLEAN, `$oid` STRING, `@t` STRING, `-` BIGINT, `0` BIGINT",
    seed="name STRING",
    lines=[
        json.dumps({COMPOSED: 1, COMBINED: 2, "user.name": "dotted", "user": {"name": "nested", "a.b": 3}}).encode(),
        json.dumps({COMBINED: 4, "it's": "a", 'say "hi"': "b", "back`tick": "c", "\u540d\u524d": "d"}).encode(),
        json.dumps({COMPOSED: 5, "\U0001f600": True, "$oid": "x", "@t": "y"}, ensure_ascii=False).encode(),
        b'{"two words":"e","":"empty","user":{"":1,"name":"n"},"-":6,"0":7}',
        b'{"a,b;c":1,"{x}":2,"(y)":3,"k=v":4,"tab\\there":5,"user.name":"again"}',
        b'{"us\\u0065r":{"n\\u0061me":"escaped"},"\\ud83d\\ude00":false}',
        b'{"' + b"long" * 64 + b'":1,"-":8}',
    ],
    never_columns={
        *((name,) for name in ("", "tab\there", "long" * 64)),
        ("user", ""),
    },
)


def _wide_row(number: int) -> bytes:
    """200 columns of seven kinds; every row lacks some, and another some are null."""
    row: dict[str, Any] = {}
    for i in range(200):
        if (i + number) % 11 == 0:
            continue
        values = [
            number * i,
            number / (i + 1),
            f"v{number}-{i}",
            i % 2 == 0,
            f"2024-01-{i % 28 + 1:02d}",
            [i],
            {"k": i},
        ]
        row[f"c{i:03d}"] = None if (i + number) % 13 == 0 else values[i % 7]
    return json.dumps(row).encode()


_WIDE_TYPES = ["BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DATE", "ARRAY<INT>", "STRUCT<k: INT>"]
WIDE = Sample(
    ddl=", ".join(f"c{i:03d} {_WIDE_TYPES[i % 7]}" for i in range(200)),
    seed="c000 BIGINT",
    lines=[_wide_row(number) for number in range(50)],
)

SAMPLES = {
    "github events": GITHUB,
    "tweets": TWEETS,
    "geojson features": GEOJSON,
    "polygons": POLYGONS,
    "cloudtrail": CLOUDTRAIL,
    "connect envelopes": ENVELOPES,
    "numbers": NUMBERS,
    "integers": INTEGERS,
    "times": TIMES,
    "clear times": CLEAR_TIMES,
    "names": NAMES,
    "200 columns": WIDE,
}
