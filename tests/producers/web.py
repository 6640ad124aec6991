"""GitHub's events as GH Archive keeps them, an access log of nginx in JSON, and Segment's copies of its calls."""

from __future__ import annotations

from typing import Any

from tests.producers.made import Files, Maker, Producer, Record, at, epoch, iso, lines, number_as, parts, zipped


def _account(make: Maker) -> Record:
    login = make.word()
    url = f"https://api.github.com/users/{login}"
    return {
        "id": make.below(10**8),
        "login": login,
        "display_login": login,
        "gravatar_id": "",
        "url": url,
        "avatar_url": f"https://avatars.githubusercontent.com/u/{make.below(10**6)}?",
    }


def _push(make: Maker, number: int) -> Record:
    commits = [
        {
            "sha": make.hex(40),
            "author": {"email": f"{make.word()}@example.com", "name": "Zoë \U0001f680"},
            "message": f"{make.words()}\n\n\t{make.words()}",
            "distinct": True,
            "url": f"https://api.github.com/repos/a/b/commits/{make.hex(40)}",
        }
        for _ in range(number % 3)
    ]
    return {
        "repository_id": make.below(10**9),
        "push_id": make.below(10**11),
        "size": len(commits),
        "distinct_size": len(commits),
        "ref": "refs/heads/main",
        "head": make.hex(40),
        "before": make.hex(40),
        "commits": commits,
    }


def _issue(make: Maker, number: int) -> Record:
    label = {"id": make.below(10**9), "name": "bug", "color": "d73a4a", "default": True, "description": None}
    return {
        "url": f"https://api.github.com/repos/a/b/issues/{number}",
        "id": make.below(10**10),
        "number": number,
        "title": make.words(),
        "user": _account(make),
        "labels": [label] if number % 2 else [],
        "state": "open",
        "locked": False,
        "assignee": _account(make) if number % 3 == 0 else None,
        "assignees": [],
        "milestone": None,
        "comments": number % 7,
        "created_at": iso(number),
        "closed_at": iso(number + 5) if number % 4 == 0 else None,
        "author_association": "NONE",
        "active_lock_reason": None,
        "body": None if number % 5 == 0 else f"{make.words(9)}\r\n```json\n{{}}\n```",
        "reactions": {"total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "rocket": number % 3},
        "performed_via_github_app": None,
    }


def _release(make: Maker, number: int) -> Record:
    asset = {"id": make.below(10**8), "name": f"{make.word()}.tar.gz", "size": make.below(10**7), "label": ""}
    return {
        "action": "published",
        "release": {
            "id": make.below(10**9),
            "tag_name": f"v1.{number}",
            "prerelease": number % 2 == 0,
            "published_at": iso(number),
            "assets": [asset],
            "body": make.words(),
        },
    }


def _payload(make: Maker, number: int) -> tuple[str, Record]:
    match number % 9:
        case 0 | 1:
            return "PushEvent", _push(make, number // 9)
        case 2:
            what = {"ref": None, "ref_type": "repository"} if number % 4 == 0 else {"ref": "v1", "ref_type": "tag"}
            rest = {"master_branch": "main", "description": None, "pusher_type": "user"}
            return "CreateEvent", what | rest
        case 3:
            return "WatchEvent", {"action": "started"}
        case 4:
            return "IssuesEvent", {"action": "opened", "issue": _issue(make, number // 9)}
        case 5:
            comment = {"id": make.below(10**10), "body": make.words(), "position": None, "created_at": iso(number)}
            return "IssueCommentEvent", {"action": "created", "issue": _issue(make, number // 9), "comment": comment}
        case 6:
            return "ReleaseEvent", _release(make, number)
        case 7:
            page = {"page_name": "Home", "title": "Home", "summary": None, "action": "edited", "sha": make.hex(40)}
            return "GollumEvent", {"pages": [page]}
        case _:
            return "PublicEvent", {}


def github_events() -> Files:
    make = Maker("github")
    records = []
    for number in range(450):
        kind, payload = _payload(make, number)
        record: Record = {
            "id": str(45_000_000_000 + number),
            "type": kind,
            "actor": _account(make),
            "repo": {"id": make.below(10**9), "name": f"{make.word()}/{make.word()}", "url": "https://api.github.com"},
            "payload": payload,
            "public": True,
            "created_at": iso(number),
        }
        if number % 4 == 0:
            record["org"] = _account(make)
        records.append(record)
    hours = enumerate(parts(records, 5))
    return {f"2026-01-31-{20 + i}.json.gz": zipped(lines(piece)) for i, piece in hours}


def _upstream(make: Maker, number: int) -> Record:
    """nginx writes `-` or nothing where there was no upstream, and a list where there were several."""
    times = ("0.004", "-", "", "0.001, 0.230")[number % 4]
    status = ("200", "-", "", "502, 200")[number % 4]
    return {"upstream_addr": make.ip(), "upstream_response_time": times, "upstream_status": status}


def _access(make: Maker, number: int) -> Record:
    return {
        "time_local": at(number).strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "time_iso8601": iso(number, zone="+00:00"),
        "msec": number_as(f"{epoch(number)}.{make.digits(3)}"),
        "remote_addr": make.ip() if number % 6 else "2001:db8::1",
        "remote_user": "-" if number % 3 else "",
        "request": f"GET /{make.word()}?q=%22{make.word()}%22 HTTP/1.1",
        "request_method": "GET",
        "status": (200, 304, 404, 499)[number % 4],
        "body_bytes_sent": make.below(10**6),
        "request_time": number_as(f"0.{make.digits(3)}"),
        # A variable that is empty for some requests is quoted in the format, and is a text for all.
        "content_length": str(make.below(10**4)) if number % 2 else "",
        "http_referer": "-",
        "http_user_agent": 'Mozilla/5.0 "X11" \\ Gecko\t☃',
        "ssl_protocol": "TLSv1.3" if number % 5 else "",
        # Some write a number where there is one and a text where there is none.
        "gzip_ratio": number_as(f"{1 + number % 4}.{make.digits(2)}") if number % 2 else "-",
    } | _upstream(make, number)


def nginx() -> Files:
    make = Maker("nginx")
    oldest, old, new = parts([_access(make, number) for number in range(300)], 3)
    return {
        "access.log": lines(new),
        "access.log.1": lines(old),
        "access.log.2.gz": zipped(lines(oldest)),
    }


def _context(make: Maker, number: int) -> Record:
    if number % 3 == 0:  # a server says little
        return {"library": {"name": "analytics-python", "version": "2.3.2"}, "traits": {}}
    return {
        "active": True,
        "app": {"name": "Shop", "version": "545", "build": "3.0.1.545" if number % 2 else 3001},
        "campaign": {"name": make.word(), "source": "newsletter", "medium": "email"},
        "ip": make.ip(),
        "library": {"name": "analytics.js", "version": "2.11.1"},
        "locale": "de-DE",
        "location": {"city": "Zürich", "latitude": 47.3769, "longitude": 8, "speed": 0},
        "page": {"path": "/", "referrer": "", "search": "", "title": make.words(), "url": "https://example.com/"},
        "screen": {"width": 320, "height": 568, "density": 2 if number % 2 else 1.5},
        "timezone": "Europe/Zurich",
        "userAgent": "Mozilla/5.0",
    }


def _call(make: Maker, number: int) -> Record:
    kind = ("track", "identify", "page", "group")[number % 4]
    user: Any = f"u{number}" if number % 3 else 97_980 + number
    record: Record = {
        "anonymousId": make.uuid(),
        "channel": "browser",
        "context": _context(make, number),
        "integrations": {"All": True, "Mixpanel": False, "Salesforce": {"batch": True} if number % 5 == 0 else True},
        "messageId": f"ajs-{make.hex(32)}",
        "originalTimestamp": iso(number, make.digits(3)),
        "receivedAt": iso(number + 1, make.digits(3)),
        "sentAt": iso(number, make.digits(3)),
        "timestamp": iso(number, make.digits(3)),
        "type": kind,
        "userId": user if number % 7 else None,
        "version": 2 if number % 2 else "1.1",
        "writeKey": make.name(digits=32),
    }
    match kind:
        case "track":
            price: Any = 19.99 if number % 8 else "19.99"
            products = [{"sku": make.name(digits=6), "price": price, "quantity": 1 + number % 3}]
            record |= {"event": "Order Completed", "properties": {"revenue": price, "products": products, "tax": 0}}
        case "identify":
            record["traits"] = {
                "email": f"{make.word()}@example.com",
                "age": number % 80,
                "createdAt": iso(number)[:10],
            }
        case "page":
            record |= {"name": None, "properties": {"title": make.words(), "products": []}}
        case _:
            record |= {"groupId": make.uuid(), "traits": {"plan": "enterprise", "employees": "32"}}
    return record


def segment() -> Files:
    make = Maker("segment")
    files = {}
    for i, piece in enumerate(parts([_call(make, number) for number in range(320)], 4)):
        day = epoch(0) // 86_400 * 86_400_000
        files[f"segment-logs/{make.name(digits=10)}/{day}/{day + i}.{make.hex(12)}.1.{make.uuid()}.gz"] = zipped(
            lines(piece)
        )
    return files


PRODUCERS = (
    Producer(name="github_events", files=github_events),
    Producer(name="nginx", files=nginx, pattern="access.log*"),
    Producer(name="segment", files=segment, pattern="**/*.gz"),
)
