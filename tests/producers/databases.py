"""Exports of MongoDB in extended JSON, and changes of a database as Debezium writes them."""

from __future__ import annotations

import base64
from typing import Any

from tests.producers.made import (
    Files,
    Maker,
    Producer,
    Record,
    array,
    concatenated,
    epoch,
    iso,
    lines,
    number_as,
    parts,
    pretty,
)

# Two forms of today; and exports before 4.2, which write times with the offset of the machine.
RELAXED, CANONICAL, OLD = range(3)


def _date(number: int, form: int) -> Record:
    if form == RELAXED:
        return {"$date": iso(number, "123")}
    if form == CANONICAL:
        return {"$date": {"$numberLong": str(epoch(number) * 1000 + 123)}}
    return {"$date": iso(number, "000", "-0700")}


def _restaurant(make: Maker, number: int, form: int) -> Record:
    is_canonical = form == CANONICAL
    score: Any = {"$numberInt": str(number % 40)} if is_canonical else number % 40
    visits: Any = {"$numberLong": str(2**53 + number)} if number % 2 or is_canonical else number
    rating: Any = {"$numberDouble": "4.5"} if is_canonical else number_as("4.50")
    grades = [{"date": _date(number - i, form), "grade": "A", "score": score} for i in range(number % 3)]
    return {
        "_id": {"$oid": make.hex(24)},
        "address": {
            "building": str(make.below(2_000)),
            "coord": [number_as(f"-73.{make.digits(7)}"), number_as(f"40.{make.digits(7)}")],
            "street": f"{make.word().title()} Avenue",
            "zipcode": make.digits(5),
        },
        "borough": "Bronx",
        "Dress Code": "casual" if number % 4 else None,
        "grades": grades,
        "average check": {"$numberDecimal": f"{number}.50"},
        "visits": visits,
        "name": f"{make.word().title()}'s Café",
        "loyalty": {"$binary": {"base64": base64.b64encode(make.word().encode()).decode(), "subType": "00"}},
        "updated": _date(number, form),
        "previous": {"$undefined": True} if number % 20 == 0 else None,
        "counter": {"$timestamp": {"t": epoch(number), "i": 1}},
        "rating": {"$numberDouble": "NaN"} if number % 15 == 0 else rating,
    }


def mongo() -> Files:
    """One collection exported twice: a document per line, and by an older release an array in one line."""
    make = Maker("mongo")
    relaxed, old = parts([_restaurant(make, number, RELAXED if number < 150 else OLD) for number in range(300)], 2)
    return {"dump/restaurants.json": lines(relaxed), "dump/restaurants-2019.json": array(old) + b"\n"}


def mongo_canonical() -> Files:
    """`mongoexport --jsonFormat=canonical --pretty`: every number says its type."""
    make = Maker("mongo canonical")
    records = [_restaurant(make, number, CANONICAL) for number in range(200)]
    return {"restaurants.json": concatenated(records, lambda record: pretty(record) + "\n")}


_COLUMNS = (
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "customer"},
    {
        "type": "bytes",
        "optional": False,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "field": "amount",
    },
    {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "created_at"},
    {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1, "field": "ship_on"},
    {"type": "boolean", "optional": True, "default": False, "field": "is_gift"},
)


def _struct(name: str, fields: list[Record], **more: Any) -> Record:
    return {"type": "struct", "fields": fields, "optional": True, "name": name} | more


_SCHEMA = _struct(
    "shop.public.orders.Envelope",
    [
        _struct("shop.public.orders.Value", list(_COLUMNS), field="before"),
        _struct("shop.public.orders.Value", list(_COLUMNS), field="after"),
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
    version=2,
)


def _order(make: Maker, number: int) -> Record:
    cents = make.below(10**7) - 500
    amount = base64.b64encode(cents.to_bytes(4, "big", signed=True)).decode()
    return {
        "id": 1_000 + number,
        "customer": None if number % 9 == 0 else make.words(2),
        "amount": amount,
        "created_at": epoch(number) * 10**6 + make.below(10**6),
        "ship_on": 20_484 + number % 9,
        "is_gift": number % 2 == 0,
        "updated_at": iso(number, make.digits(6)),
    }


def _change(make: Maker, number: int) -> Record:
    op = "cudr"[number % 4]
    order = _order(make, number)
    millis = epoch(number) * 1000 + make.below(1000)
    source = {
        "version": "3.0.1.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": millis,
        "snapshot": "false" if number % 2 else "last",
        "db": "shop",
        "sequence": f'["{make.digits(8)}","{make.digits(8)}"]',
        "ts_us": millis * 1000 + 7,
        "ts_ns": (millis * 1000 + 7) * 1000 + 3,
        "schema": "public",
        "table": "orders",
        "txId": 555 + number,
        "lsn": 24_023_128 + number,
        "xmin": None,
    }
    transaction = {"id": f"{555 + number}:24023128", "total_order": 1, "data_collection_order": 1}
    payload = {
        "before": order | {"is_gift": None} if op in "ud" else None,
        "after": None if op == "d" else order,
        "source": source,
        "transaction": transaction if number % 10 == 0 else None,
        "op": op,
        "ts_ms": millis + 3,
        "ts_us": millis * 1000 + 3_007,
        "ts_ns": (millis * 1000 + 3_007) * 1000 + 3,
    }
    return {"schema": _SCHEMA, "payload": payload}


def debezium() -> Files:
    """As the S3 sink of Kafka Connect names its files."""
    make = Maker("debezium")
    files = {}
    for i, piece in enumerate(parts([_change(make, number) for number in range(240)], 4)):
        topic = "shop.public.orders"
        files[f"topics/{topic}/partition={i % 2}/{topic}+{i % 2}+{i * 60:010d}.json"] = lines(piece)
    return files


PRODUCERS = (
    Producer(name="mongo", files=mongo),
    Producer(name="mongo_canonical", files=mongo_canonical),
    Producer(name="debezium", files=debezium),
)
