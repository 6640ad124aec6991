"""Logs of Google Cloud and of Azure, as their sinks write them into buckets and containers."""

from __future__ import annotations

from typing import Any

from tests.producers.made import Files, Maker, Producer, Record, array_of_lines, compact, iso, lines, parts


def _payload(make: Maker, number: int) -> Record:
    """One of three fields holds what was logged."""
    match number % 3:
        case 0:
            return {"textPayload": f"{make.words(6)}\n"}
        case 1:
            extra: Any = {"code": number} if number % 2 else make.words()
            return {"jsonPayload": {"message": make.words(), "level": "info", "error": extra, "attempt": number % 4}}
        case _:
            call = {
                "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
                "status": {} if number % 2 else {"code": 7, "message": "PERMISSION_DENIED"},
                "authenticationInfo": {"principalEmail": f"{make.word()}@example.com"},
                "requestMetadata": {"callerIp": make.ip(), "requestAttributes": {"time": iso(number, make.digits(9))}},
                "serviceName": "compute.googleapis.com",
                "methodName": "v1.compute.instances.insert",
                "authorizationInfo": [{"permission": "compute.instances.create", "granted": True}],
                "resourceName": f"projects/p/zones/europe-west3-a/instances/{make.word()}",
                "request": {"machineType": "e2-small", "disks": [{"diskSizeGb": "10", "boot": True}]},
            }
            return {"protoPayload": call}


def _http(make: Maker, number: int) -> Record:
    """64-bit integers are text."""
    return {
        "requestMethod": "GET",
        "requestUrl": f"https://example.com/{make.word()}",
        "requestSize": str(make.below(9_999)),
        "status": 200,
        "responseSize": str(make.below(99_999)),
        "remoteIp": make.ip(),
        "latency": f"0.{make.digits(9)}s",
        "cacheLookup": number % 2 == 0,
    }


def _entry(make: Maker, number: int) -> Record:
    record = _payload(make, number) | {
        "insertId": make.name(digits=14),
        "logName": "projects/p/logs/cloudaudit.googleapis.com%2Factivity",
        "resource": {
            "type": "gce_instance",
            "labels": {"instance_id": make.digits(19), "project_id": "p", "zone": "europe-west3-a"},
        },
        "severity": ("INFO", "NOTICE", "ERROR")[number % 3],
        # As many digits as the clock had: nine, or six, or three, or none.
        "timestamp": iso(number, ("", make.digits(8) + "1", make.digits(6), make.digits(3))[number % 4]),
        "receiveTimestamp": iso(number + 1, make.digits(8) + "9"),
    }
    if number % 4 == 0:
        record |= {"httpRequest": _http(make, number), "trace": f"projects/p/traces/{make.hex(32)}"}
    if number % 5 == 0:
        record["labels"] = {f"k8s-pod/{make.word()}-{number}": make.word(), "compute.googleapis.com/resource_name": "r"}
        record["operation"] = {"id": make.uuid(), "producer": "compute.googleapis.com", "first": True}
    if number % 6 == 0:
        record["sourceLocation"] = {"file": "main.go", "line": str(number), "function": "main.(*server).run"}
    return record


def gcp() -> Files:
    """A sink writes lines; `gcloud` and exports of a query write an array with one object per line."""
    make = Maker("gcp")
    first, second, third = parts([_entry(make, number) for number in range(330)], 3)
    folder = "cloudaudit.googleapis.com/activity/2026/01/31"
    return {
        f"{folder}/22:00:00_22:59:59_S0.json": lines(first),
        f"{folder}/23:00:00_23:59:59_S0.json": lines(second),
        "exports/bq-results-20260201-001231.json": array_of_lines(third),
    }


def _authorization(make: Maker, number: int) -> Record:
    claims = {
        "aud": "https://management.core.windows.net/",
        "iat": str(1_769_900_000 + number),
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn": f"{make.word()}@example.com",
        "http://schemas.microsoft.com/claims/authnclassreference": "1",
    }
    scope = f"/subscriptions/{make.uuid()}/resourceGroups/{make.word()}"
    return {"authorization": {"scope": scope, "action": "Microsoft.Compute/write", "evidence": {}}, "claims": claims}


def _activity(make: Maker, number: int) -> Record:
    """`properties` is an object, or the same as text; a duration is a number, or the same as text."""
    properties: Any = {"statusCode": "Created", "serviceRequestId": make.uuid(), "responseBody": "{}"}
    return {
        "time": iso(number, make.digits(6) + "7"),
        "resourceId": f"/SUBSCRIPTIONS/{make.uuid().upper()}/RESOURCEGROUPS/{make.word().upper()}",
        "operationName": "MICROSOFT.COMPUTE/VIRTUALMACHINES/WRITE",
        "category": ("Administrative", "Policy", "SignInLogs")[number % 3],
        "resultType": "Start" if number % 2 else "0",
        "resultSignature": "Started." if number % 2 else 200,
        "durationMs": number if number % 4 else "0",
        "callerIpAddress": make.ip(),
        "correlationId": make.uuid(),
        "identity": _authorization(make, number) if number % 3 else make.words(2),
        "Level": 4 if number % 2 else "Information",
        "location": "global",
        "properties": compact(properties) if number % 2 else properties,
    }


def azure() -> Files:
    """One file an hour, always of the same name; an older one is a single object, a newer one has lines."""
    make = Maker("azure")
    files = {}
    for hour, piece in enumerate(parts([_activity(make, number) for number in range(300)], 4)):
        folder = f"insights-activity-logs/resourceId=/SUBSCRIPTIONS/X/y=2026/m=01/d=31/h={20 + hour}/m=00"
        records = ",".join(map(compact, piece))
        one_object = f'{{"records":[{records}]}}'.encode()
        files[f"{folder}/PT1H.json"] = one_object if hour < 2 else lines(piece).replace(b"\n", b"\r\n")
    return files


PRODUCERS = (
    Producer(name="gcp", files=gcp),
    Producer(name="azure", files=azure, key="records"),
)
