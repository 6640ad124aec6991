"""The audit log of a Kubernetes API server, and traces as OpenTelemetry's JSON encoding has them."""

from __future__ import annotations

from tests.producers.made import Files, Maker, Producer, Record, concatenated, epoch, iso, lines, parts, pretty, zipped


def _pod(make: Maker, number: int) -> Record:
    """Labels and annotations are maps: their keys are the users' own."""
    labels = {
        "app.kubernetes.io/name": make.word(),
        "pod-template-hash": make.hex(10),
        f"team-{number}.example.com/owner": make.word(),
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{make.word()}-{make.name(digits=5)}",
            "namespace": "default",
            "uid": make.uuid(),
            "resourceVersion": make.digits(7),
            "creationTimestamp": iso(number) if number % 2 else None,
            "labels": labels,
            "annotations": {f"checksum/{make.word()}-{number}": make.hex(16)},
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": f"registry.example.com/{make.word()}:1.{number % 9}",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "500m" if number % 3 else 1, "memory": "128Mi"}},
                    # A port by its number or by its name.
                    "livenessProbe": {"httpGet": {"path": "/", "port": 8080 if number % 2 else "http"}},
                }
            ],
            "nodeSelector": {},
            "tolerations": [],
        },
        "status": {},
    }


def _user(make: Maker, number: int) -> Record:
    if number % 3:
        return {"username": "system:apiserver", "uid": make.uuid(), "groups": ["system:masters"]}
    return {
        "username": f"system:serviceaccount:default:{make.word()}",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/pod-name": [f"{make.word()}-{make.name(digits=5)}"],
            "authentication.kubernetes.io/pod-uid": [make.uuid()],
        },
    }


def _event(make: Maker, number: int) -> Record:
    verb = ("get", "create", "patch", "watch", "delete")[number % 5]
    record: Record = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse" if verb == "create" else "Metadata",
        "auditID": make.uuid(),
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/default/pods?limit={number}&watch=true",
        "verb": verb,
        "user": _user(make, number),
        "sourceIPs": [make.ip()],
        "userAgent": "kubectl/v1.31.0 (linux/amd64) kubernetes/9edcffc",
        "objectRef": {"resource": "pods", "namespace": "default", "name": make.word(), "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": (200, 201, 404)[number % 3]},
        "requestReceivedTimestamp": iso(number, make.digits(6)),
        "stageTimestamp": iso(number, make.digits(6)),
        # The agent that ships the file adds its own time, in nanoseconds.
        "@timestamp": iso(number, make.digits(8) + "7"),
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": f'RBAC: allowed by ClusterRoleBinding "{make.word()}"',
        },
    }
    if number % 3 == 2:
        record["responseStatus"] |= {"status": "Failure", "reason": "NotFound", "message": "pods not found"}
    if verb == "create":
        record |= {"requestObject": _pod(make, number), "responseObject": _pod(make, number + 1)}
    if verb == "patch":  # a patch is a list of operations, or part of the object
        patch = [{"op": "replace", "path": "/spec/replicas", "value": number}]
        record["requestObject"] = patch if number % 2 else {"metadata": {"labels": {f"run-{number}": "x"}}}
    return record


def kubernetes_audit() -> Files:
    make = Maker("kubernetes")
    older, old, new = parts([_event(make, number) for number in range(360)], 3)
    return {
        "audit-2026-01-31T22-58-07.512.log.gz": zipped(lines(older)),
        "audit-2026-02-01T00-12-31.044.log.gz": zipped(lines(old)),
        "audit.log": lines(new),
    }


def _attributes(make: Maker, number: int) -> list[Record]:
    """One of the kinds of value each: 64-bit integers are text."""
    return [
        {"key": "http.request.method", "value": {"stringValue": "GET"}},
        {"key": "http.response.status_code", "value": {"intValue": str(200 + number % 300)}},
        {"key": "http.retry", "value": {"boolValue": number % 2 == 0}},
        {"key": "load", "value": {"doubleValue": number / 7}},
        {"key": "tags", "value": {"arrayValue": {"values": [{"stringValue": make.word()}, {"intValue": "1"}]}}},
    ][: 1 + number % 5]


def _span(make: Maker, number: int) -> Record:
    start = epoch(number) * 10**9 + make.below(10**9)
    span: Record = {
        "traceId": make.hex(32),
        "spanId": make.hex(16),
        "parentSpanId": make.hex(16) if number % 3 else "",
        "flags": 256 + number % 2,
        "name": f"GET /{make.word()}",
        "kind": 1 + number % 5,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + make.below(10**9)),
        "attributes": _attributes(make, number),
        "droppedAttributesCount": 0,
        "status": {"code": 2, "message": "timed\nout"} if number % 7 == 0 else {},
    }
    if number % 4 == 0:
        span["events"] = [{"timeUnixNano": str(start), "name": "exception", "attributes": _attributes(make, number)}]
    if number % 9 == 0:
        span["links"] = [{"traceId": make.hex(32), "spanId": make.hex(16), "attributes": []}]
    return span


def _export(make: Maker, number: int) -> Record:
    service = {"key": "service.name", "value": {"stringValue": make.word()}}
    scope = {"name": "io.opentelemetry.http", "version": "2.1.0"}
    spans = [_span(make, number * 3 + i) for i in range(1 + number % 3)]
    resource = {"resource": {"attributes": [service]}, "scopeSpans": [{"scope": scope, "spans": spans}]}
    return {"resourceSpans": [resource | {"schemaUrl": "https://opentelemetry.io/schemas/1.27.0"}]}


def otlp() -> Files:
    """Each export is one object on many lines."""
    make = Maker("otlp")
    exports = parts([_export(make, number) for number in range(210)], 3)
    return {f"traces-{i}.json": concatenated(piece, lambda e: pretty(e) + "\n") for i, piece in enumerate(exports)}


PRODUCERS = (
    Producer(name="kubernetes_audit", files=kubernetes_audit, pattern="**/*.{log,log.gz}"),
    Producer(name="otlp", files=otlp),
)
