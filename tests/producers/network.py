"""Zeek's logs in JSON, and Suricata's EVE log."""

from __future__ import annotations

from tests.producers.made import (
    Files,
    Maker,
    Producer,
    Record,
    at,
    epoch,
    iso,
    lines,
    number_as,
    parts,
    zipped,
)


def _connection(make: Maker, number: int) -> Record:
    """What every log has: an epoch with a fraction, and names with a dot in them."""
    return {
        "ts": number_as(f"{epoch(number)}.{make.digits(6)}"),
        "uid": f"C{make.name(digits=17)}",
        "id.orig_h": make.ip(),
        "id.orig_p": 1024 + make.below(64_000),
        "id.resp_h": make.ip() if number % 5 else "fe80::1",
        "id.resp_p": (53, 80, 443)[number % 3],
    }


def _conn(make: Maker, number: int) -> Record:
    record = _connection(make, number) | {"proto": ("udp", "tcp", "tcp")[number % 3], "conn_state": "SF"}
    if number % 4:  # what is not known is left out
        record |= {
            "service": ("dns", "http", "ssl")[number % 3],
            "duration": number_as("0.000015" if number % 2 else f"{number}.{make.digits(6)}"),
            "orig_bytes": make.below(5_000),
            "resp_bytes": 2**32 + make.below(2**31) if number % 50 == 1 else make.below(50_000),
        }
    return record | {
        "local_orig": True,
        "local_resp": False,
        "missed_bytes": 0,
        "history": "ShADadFf",
        "orig_pkts": make.below(99),
        "orig_ip_bytes": make.below(9_999),
        "tunnel_parents": [] if number % 10 else [f"C{make.name(digits=17)}"],
    }


def _dns(make: Maker, number: int) -> Record:
    return _connection(make, number) | {
        "proto": "udp",
        "trans_id": make.below(65_536),
        "rtt": number_as(f"0.{make.digits(6)}"),
        "query": f"{make.word()}.example.com",
        "qclass": 1,
        "qclass_name": "C_INTERNET",
        "qtype": 28 if number % 2 else 1,
        "qtype_name": "AAAA" if number % 2 else "A",
        "rcode": 0,
        "rcode_name": "NOERROR",
        "AA": False,
        "TC": False,
        "RD": True,
        "RA": number % 3 == 0,
        "Z": 0,
        "answers": [make.ip() for _ in range(number % 3)],
        "TTLs": [number_as("300.0") for _ in range(number % 3)],
        "rejected": False,
    }


def _http(make: Maker, number: int) -> Record:
    return _connection(make, number) | {
        "trans_depth": 1 + number % 3,
        "method": "GET",
        "host": f"{make.word()}.example.com",
        "uri": f"/{make.word()}?x=\\x41",
        "version": "1.1",
        "user_agent": "curl/8.5.0",
        "request_body_len": 0,
        "response_body_len": make.below(9_999),
        "status_code": (200, 301, 404)[number % 3],
        "status_msg": "OK",
        "tags": [],
        "resp_fuids": [f"F{make.name(digits=17)}"],
        "resp_mime_types": ["text/html"],
    }


def zeek() -> Files:
    make = Maker("zeek")
    files = {}
    for name, log in (("conn", _conn), ("dns", _dns), ("http", _http)):
        first, second = parts([log(make, number) for number in range(120)], 2)
        files[f"2026-01-31/{name}.22:00:00-23:00:00.log.gz"] = zipped(lines(first))
        files[f"current/{name}.log"] = lines(second)
    return files


def _alert(make: Maker, number: int) -> Record:
    return {
        "action": "allowed",
        "gid": 1,
        "signature_id": 2_100_498 + number % 9,
        "rev": 7,
        "signature": "GPL ATTACK_RESPONSE id check returned root",
        "category": "Potentially Bad Traffic",
        "severity": 1 + number % 3,
        "metadata": {"created_at": ["2010_09_23"], "confidence": ["Medium"]},
    }


def _eve_dns(make: Maker, number: int) -> Record:
    """A query has little, an answer has a list of them and the same grouped by type."""
    name = f"{make.word()}.example.com"
    if number % 2:
        return {"type": "query", "id": make.below(65_536), "rrname": name, "rrtype": "A", "tx_id": 0, "opcode": 0}
    answers = [{"rrname": name, "rrtype": "A", "ttl": make.below(300), "rdata": make.ip()}]
    return {
        "version": 2,
        "type": "answer",
        "id": make.below(65_536),
        "flags": "8180",
        "qr": True,
        "rd": True,
        "ra": True,
        "rcode": "NOERROR",
        "answers": answers,
        "grouped": {"A": [answers[0]["rdata"]]},
    }


def _tls(make: Maker, number: int) -> Record:
    return {
        "subject": f"CN={make.word()}.example.com",
        "issuerdn": "C=US, O=Let's Encrypt, CN=R11",
        "serial": ":".join(make.hex(2).upper() for _ in range(6)),
        "fingerprint": make.hex(40),
        "sni": f"{make.word()}.example.com",
        "version": "TLS 1.3",
        "notbefore": at(-number, 86_400).strftime("%Y-%m-%dT%H:%M:%S"),
        "notafter": at(number, 86_400).strftime("%Y-%m-%dT%H:%M:%S"),
        "ja3": {"hash": make.hex(32), "string": "771,4865-4866,0-23"} if number % 2 else {},
    }


def _flow(make: Maker, number: int) -> Record:
    return {
        "pkts_toserver": make.below(99),
        "pkts_toclient": make.below(99),
        "bytes_toserver": make.below(99_999),
        "bytes_toclient": make.below(99_999),
        "start": iso(number, make.digits(6), "+0100"),
        "end": iso(number + 1, make.digits(6), "+0100"),
        "age": number % 60,
        "state": "established",
        "reason": "timeout",
        "alerted": number % 8 == 0,
    }


def _stats(make: Maker, number: int) -> Record:
    event = {"ipv4": {"pkt_too_small": 0, "opt_pad_required": number % 2}}
    decoder = {"pkts": make.below(10**6), "bytes": make.below(10**9), "avg_pkt_size": 512, "event": event}
    return {"uptime": number * 8, "capture": {"kernel_packets": make.below(10**6)}, "decoder": decoder}


def _eve(make: Maker, number: int) -> Record:
    record: Record = {"timestamp": iso(number, make.digits(6), "+0100")}
    kind = ("alert", "dns", "http", "tls", "flow", "stats")[number % 6]
    if kind == "stats":
        return record | {"event_type": kind, "stats": _stats(make, number // 6)}
    record |= {
        "flow_id": make.below(2**51),
        "in_iface": "eth0",
        "event_type": kind,
        "src_ip": make.ip(),
        "src_port": 1024 + make.below(64_000),
        "dest_ip": make.ip(),
        "dest_port": 443,
        "proto": "TCP",
    }
    if kind in ("alert", "http"):
        record["http"] = {
            "hostname": f"{make.word()}.example.com",
            "url": f"/{make.word()}",
            "http_user_agent": "curl/8.5.0",
            "http_method": "GET",
            "protocol": "HTTP/1.1",
            "status": 200,
            "length": make.below(9_999),
        }
    match kind:
        case "alert":
            record |= {"alert": _alert(make, number // 6), "vlan": [number % 4_094]}
        case "dns":
            record["dns"] = _eve_dns(make, number // 6)
        case "tls":
            record["tls"] = _tls(make, number // 6)
        case "flow":
            record |= {"flow": _flow(make, number // 6), "tcp": {"tcp_flags": "1b", "syn": True, "state": "closed"}}
        case _:
            record["tx_id"] = number % 3
    return record


def suricata() -> Files:
    make = Maker("suricata")
    pieces = parts([_eve(make, number) for number in range(360)], 3)
    return {f"eve-2026-01-31-{20 + i}:00.json": lines(piece) for i, piece in enumerate(pieces)}


PRODUCERS = (
    Producer(name="zeek", files=zeek, pattern="**/*.{log,log.gz}"),
    Producer(name="suricata", files=suricata),
)
