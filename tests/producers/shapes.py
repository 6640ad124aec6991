"""Lines that real programs write, by what is odd about them. A few lines each; every value in them must be found again.

The names say which program, format or library writes such lines, where one is known for it.
"""

from __future__ import annotations

_DEEP = "".join('{"a":' for _ in range(60)) + "1" + "}" * 60

SHAPES: dict[str, list[str]] = {
    # numbers
    "integers and fractions": ['{"a":1}', '{"a":1.0}', '{"a":1e3}', '{"a":-0}', '{"a":-0.0}', '{"a":0.1}'],
    "64 bits, signed or not": ['{"a":9223372036854775807}', '{"a":18446744073709551615}', '{"a":-9223372036854775808}'],
    "more than 38 digits": ['{"a":1}', '{"a":' + "9" * 39 + "}", '{"a":' + "7" * 400 + "}"],
    "beyond a double": [
        '{"a":1.5}',
        '{"a":1e400}',
        '{"a":1e-400}',
        '{"a":0.30000000000000004}',
        '{"a":9007199254740993}',
    ],
    "a number or its text": ['{"a":12}', '{"a":"12"}', '{"a":""}', '{"a":"-"}', '{"a":"N/A"}', '{"a":null}'],
    "text or its number": ['{"a":"12"}', '{"a":12}', '{"a":1.50}', '{"a":true}'],
    "flags as 0 and 1": ['{"a":true}', '{"a":0}', '{"a":"true"}', '{"a":1}', '{"a":"Y"}'],
    "money as text": ['{"a":"19.99","b":"1,999.00","c":"$5"}', '{"a":"-0.10","b":"","c":null}'],
    "hexadecimal and the like": [
        '{"a":"0x1f","b":"NaN","c":"Infinity","d":"null"}',
        '{"a":"12","b":"1","c":"2","d":"3"}',
    ],
    # objects and arrays
    "only empty": ['{"a":{},"b":[],"c":null,"d":{"e":{}},"f":[[]],"g":[{}],"h":""}'] * 2,
    "empty, later not": ['{"a":{},"b":[],"c":[[]]}', '{"a":{"x":1},"b":["y"],"c":[[1.5]]}', '{"a":null,"b":null}'],
    "object, array, text or null": ['{"a":{"b":1}}', '{"a":[{"b":1}]}', '{"a":"b"}', '{"a":null}', '{"a":7}'],
    "one or many": ['{"a":"x"}', '{"a":["x","y"]}', '{"a":[]}'],
    "arrays of everything": ['{"a":[1,"x",null,{"b":[true]},[2]]}', '{"a":[]}', '{"a":[null]}'],
    "arrays in arrays": ['{"c":[[[8.5,47],[8,47.25]]]}', '{"c":[]}', '{"c":[[]]}'],
    "objects of several kinds in one array": [
        '{"a":[{"t":"x","v":1},{"t":"y","v":"2","w":{}}]}',
        '{"a":[{"w":{"z":1}}]}',
    ],
    "60 levels": ['{"a":1,"deep":' + _DEEP + "}", '{"a":2}'],
    "an array as an object": ['{"a":{"0":"x","1":"y"}}', '{"a":{"2":"z"}}'],
    "keys that are data": [f'{{"sizes":{{"2026-01-{d:02d}":{d},"u{d}":null}},"n":{d}}}' for d in range(1, 29)],
    "a field named as parts of a column are": [
        '{"element":1,"key":{"key_value":{"value":1}},"value":[{"element":2}],"list":{"element":[3]}}'
    ],
    # names
    "names with anything in them": [
        '{"a b":1,"a.b":2,"$a":3,"a/b":4,"a:b":5,"a;b":6,"a,b":7,"a=b":8,"(a)":9,"{a}":10,"a`b":11,"1":12,"-":13}',
        '{"é":1,"日本":2,"🚀":3,"a\\"b":4,"a\\\\b":5,"%s":6,"@timestamp":7,"#":8,"*":9,"?":10,"[0]":11,"select":12}',
    ],
    "names that no column may have": [
        '{"":1,"a\\nb":2,"tab\\t":3,"' + "x" * 300 + '":4,"ok":5}',
        '{"_rescued_data":{"a":1},"_source_file":"x","ok":6}',
    ],
    "names spelled in two ways": [
        '{"LogonId":1,"s":{"ID":1}}',
        '{"LogonID":2,"s":{"Id":2}}',
        '{"logonid":3,"s":{"id":3}}',
    ],
    "two spellings in one record": [
        '{"name":"a","id":1}',
        '{"name":"a","Name":"b","id":2}',
        '{"s":{"x":1,"X":2},"id":3}',
    ],
    "two spellings beyond ASCII": ['{"é":1}', '{"É":2}', '{"é":3,"É":4}', '{"straße":1,"STRASSE":2,"İ":3,"i":4}'],
    "a name given twice": ['{"a":1,"b":2}', '{"a":1,"a":1}', '{"a":{"x":1,"x":2},"b":3}', '{"u":1,"u":2,"a":5}'],
    # times
    "times of ISO 8601": [
        '{"t":"2026-01-31T22:58:07Z"}',
        '{"t":"2026-01-31T22:58:07.123456789Z"}',
        '{"t":"2026-01-31T22:58:07.1234567+01:00"}',
        '{"t":"2026-01-31T22:58:07+0100"}',
        '{"t":"2026-01-31T22:58:07-07"}',
        '{"t":"2026-01-31 22:58:07"}',
        '{"t":"2026-01-31T22:58"}',
        '{"t":"2026-01-31"}',
    ],
    "times that only look like it": [
        '{"t":"2026-01-31T22:58:07Z"}',
        '{"t":"2026-01-31t22:58:07z"}',
        '{"t":"2026-01-31T22:58:60Z"}',
        '{"t":"2026-01-31T24:00:00Z"}',
        '{"t":"2026-02-30T00:00:00Z"}',
        '{"t":"0000-00-00 00:00:00"}',
        '{"t":"2026-01-31 22:58:07,123"}',
        '{"t":"2026-01-31 22:58:07 UTC"}',
        '{"t":"20260131T225807Z"}',
        '{"t":"2026-W05-6"}',
        '{"t":"9999-12-31T23:59:59-01:00"}',
        '{"t":""}',
    ],
    "times in other forms": [
        '{"s":1769900287,"ms":1769900287123,"us":1769900287123456,"ns":1769900287123456789,"f":1769900287.123456,'
        '"clf":"31/Jan/2026:22:58:07 +0000","rfc":"Sat, 31 Jan 2026 22:58:07 GMT","net":"/Date(1769900287123)/",'
        '"twitter":"Sat Jan 31 22:58:07 +0000 2026","syslog":"Jan 31 22:58:07","us_date":"1/31/2026 10:58 PM"}',
        '{"s":1769900288,"ms":0,"us":-1,"ns":null,"f":0.5,"clf":"-","rfc":"","net":null,"twitter":"","syslog":""}',
    ],
    "a date, later a time": ['{"d":"2026-01-31"}', '{"d":"2026-01-31T00:00:00Z"}', '{"d":"soon"}'],
    "unix time beside RFC 3339": ['{"t":"2026-01-31T22:58:07Z"}', '{"t":1769900287}', '{"t":1769900287.5}'],
    # text
    "characters": [
        '{"a":"\\u0000\\u001b[31m\\u007f","b":"\\ud83d\\ude80 🚀 \\u2028\\u00e9é","c":"\\"\\\\\\/\\b\\f\\n\\r\\t"}',
        '{"a":"<script>&amp;</script>","b":"﻿","c":"' + "x" * 70_000 + '"}',
    ],
    "JSON in text": ['{"a":"{\\"b\\":1}","c":"[1,2]"}', '{"a":{"b":1},"c":[1,2]}', '{"a":"{broken","c":""}'],
    "whitespace": [' {"a" : 1 , "b" :\t[ 1 , 2 ] } \r', "", "  \t", '{"a":2,"b":[]}', "\r", '{ "a":3,"b":{"c" : 1}}'],
    # records that are none
    "not objects": ['{"a":1}', "null", "5", '"x"', "true", "[]", "{}", '{"a":2}'],
    # programs
    "docker": ['{"log":"out\\n","stream":"stdout","time":"2026-01-31T22:58:07.123456789Z"}'] * 2,
    "journald": [
        '{"MESSAGE":"started","__REALTIME_TIMESTAMP":"1769900287123456","_PID":"1","PRIORITY":"6"}',
        '{"MESSAGE":[27,91,51,49,109],"__REALTIME_TIMESTAMP":"1769900287123457","_PID":"1","_SYSTEMD_UNIT":["a","b"]}',
    ],
    "Elasticsearch bulk": [
        '{"index":{"_index":"logs","_id":"1"}}',
        '{"@timestamp":"2026-01-31T22:58:07Z","n":1}',
        '{"delete":{"_index":"logs","_id":"2"}}',
        '{"create":{}}',
        '{"n":"1"}',
    ],
    "GeoJSON": [
        '{"type":"Feature","geometry":{"type":"Point","coordinates":[8.5,47]},"properties":{"a":1},"id":1}',
        '{"type":"Feature","geometry":{"type":"LineString","coordinates":[[8,47],[9,47.5]]},"properties":null,"id":"x"}',
    ],
    "JSON-LD": [
        '{"@context":"https://schema.org","@graph":[{"@id":"a","@type":["T","U"]}]}',
        '{"@context":["x",{"y":"z"}],"@graph":[{"@id":"b","@type":"T"}]}',
    ],
    "Slack": [
        '{"type":"message","ts":"1769900287.000200","blocks":[],"edited":{"user":"U1","ts":"1769900288.000000"}}'
    ],
    "Twitter": ['{"id":1487905203661705216,"id_str":"1487905203661705216","geo":null,"entities":{"urls":[]}}'],
    "Prometheus": ['{"metric":{"__name__":"up","job":"x"},"values":[[1769900287.123,"1"],[1769900302,"NaN"]]}'],
    "Stripe": [
        '{"id":"evt_1","created":1769900287,"data":{"object":{"amount":1999,"metadata":{"k1":"v"}},'
        '"previous_attributes":{"plan":{"id":"p"}}},"livemode":false}',
        '{"id":"evt_2","created":1769900288,"data":{"object":{"amount":null,"metadata":{"k2":"v"},"plan":"p"},'
        '"previous_attributes":{"plan":"p"}},"livemode":false}',
    ],
    "osquery": [
        '{"name":"procs","columns":{"pid":"1","cpu":"0.5"},"unixTime":1769900287,"numerics":false,"counter":"0"}',
        '{"name":"procs","columns":{"pid":1,"cpu":0.5},"unixTime":1769900288,"numerics":true,"counter":0}',
        '{"name":"os","snapshot":[{"build":"x"}],"unixTime":"1769900289"}',
    ],
    "Cloudflare": [
        '{"EdgeStartTimestamp":1769900287433000200,"ClientIP":"::1","RayID":"8c0","OriginResponseStatus":0}',
        '{"EdgeStartTimestamp":"2026-01-31T22:58:07Z","ClientIP":"::1","IPTtl":1,"IPTTL":2}',
        '{"EdgeStartTimestamp":1769900288,"ClientIP":"::1"}',
    ],
    "Wikidata": [
        '{"id":"Q1","labels":{"de":{"value":"a"},"en":{"value":"b"}},"claims":{"P31":[{"v":"x"}]}}',
        '{"id":"Q2","labels":[],"claims":{"P279":[{"v":{"id":7}}],"P31":[]}}',
    ],
    "pino and bunyan": [
        '{"level":30,"time":1769900287123,"pid":1,"hostname":"h","msg":"x","v":0}',
        '{"level":"info","time":"2026-01-31T22:58:07.123Z","pid":1,"err":{"message":"m","code":"E"},"v":0}',
        '{"level":50,"time":1769900287124,"err":"m"}',
    ],
    "a table keyed by its own values": ['{"2026":{"01":{"count":1}}}', '{"2027":{"01":{"count":"many"}}}'],
}
