"""The lines of the data set `events`: wide, sparse, nested events of many kinds, as audit logs of clouds and of Windows
have them. Some fields hold a number here and a text or an object there: inference makes STRING columns of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import cache

from benchmarks.generators import timestamp

_SOURCES = ("iam", "s3", "ec2", "sts", "kms", "lambda", "rds", "signin")
_ACTIONS = ("Get", "List", "Put", "Create", "Delete", "Describe", "Assume", "Update")
_THINGS = ("Role", "Object", "Instance", "Key", "Function", "Bucket", "Policy", "User")
_REGIONS = ("eu-central-1", "eu-west-1", "us-east-1", "ap-south-1")
_AGENTS = ("aws-cli/2.15.0 Python/3.11", "console.amazonaws.com", "Boto3/1.34 md/Botocore#1.34 ua/2.0", "Terraform/1.7")
_PEOPLE = ("ada", "björn", "chloë", "dmitri", "svc-backup", "svc-deploy", "fatima", "日向")

# A column for each pair. A kind of event has the columns of some groups, and each record most of those.
_GROUPS = ("Subject", "Target", "Process", "Logon", "Network", "Service", "Object", "Ticket", "Session", "Device")
_OBJECT = '{{"code":{},"by":"{}"}}'
_VALUES: dict[str, Callable[[int], str]] = {
    "UserName": lambda n: f'"{_PEOPLE[n & 7]}-{n >> 3 & 0xFFF}"',
    "Id": lambda n: str(n & 0xFFFF) if n & 0x30000 else f'"0x{n & 0xFFFF:x}"',  # a number or a text
    "Path": lambda n: f'"C:\\\\Windows\\\\System32\\\\{_THINGS[n & 7]}{n >> 3 & 0xFF}.exe"',
    "Status": lambda n: f'"0xc{n & 0xFFFFFF:07x}"',
    "Count": lambda n: str(n & 0xFFFFF),
    "Time": lambda n: f'"{timestamp(n & 0xFFFFF, n)}"',
    "Flags": lambda n: ("[]", '["read"]', '["read","write"]', '["read","write","audit"]')[n & 3],
    "Enabled": lambda n: "true" if n & 1 else "false",
    "Ratio": lambda n: str((n & 0xFFFF) / 1024),
    "Details": lambda n: (_OBJECT.format(n & 0xFFF, _PEOPLE[n >> 12 & 7]), '"-"', "null", '"none given"')[n & 3],
}
ALWAYS = ("id", "eventVersion", "eventTime", "eventSource", "eventName", "awsRegion", "recipientAccountId")


@cache
def ddl() -> str:
    """What `blizzard schema infer` says about these records. Kept as text, so that every run has the same columns."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "events.ddl"), encoding="utf-8") as file:
        return " ".join(file.read().split())


def event_lines(first_id: int, count: int) -> Iterator[str]:
    bits = random.Random(first_id).getrandbits
    for record_id in range(first_id, first_id + count):
        a, row = bits(64), bits(32 * 40)
        fields = [*_common(record_id, a), *_nested(a)]
        for group in _groups_of_kind(a & 63):
            for suffix, value in _VALUES.items():
                row >>= 32
                noise = row & 0xFFFFFFFF
                if noise & 7:  # one in eight is missing
                    fields.append(f'"{group}{suffix}":{value(noise >> 3)}')
        yield "{" + ",".join(fields) + "}\n"


def _groups_of_kind(kind: int) -> tuple[str, ...]:
    """One to three of the groups, the same for every event of a kind."""
    chosen = (kind % 10, kind * 7 % 10, kind * 3 % 10)[: 1 + kind % 3]
    return tuple(_GROUPS[i] for i in dict.fromkeys(chosen))


def _common(record_id: int, a: int) -> list[str]:
    kind = a & 63
    fields = [
        f'"id":{record_id},"eventVersion":"1.08","eventTime":"{timestamp(record_id, a >> 6)}"',
        f'"eventSource":"{_SOURCES[kind >> 3]}.amazonaws.com","eventName":"{_ACTIONS[kind & 7]}{_THINGS[kind >> 3]}"',
        f'"awsRegion":"{_REGIONS[a >> 6 & 3]}","recipientAccountId":"{a >> 8 & 0xFFFFFFFFFF:012d}"',
        f'"sourceIPAddress":"10.{a >> 8 & 255}.{a >> 16 & 255}.{a >> 24 & 255}","userAgent":"{_AGENTS[a >> 32 & 3]}"',
        f'"readOnly":{"true" if kind & 3 == 0 else "false"},"managementEvent":true',
    ]
    if a >> 34 & 7 == 0:
        fields.append('"errorCode":"AccessDenied","errorMessage":"not authorized to perform this action"')
    return fields


def _nested(a: int) -> Iterator[str]:
    person, account = _PEOPLE[a >> 37 & 7], f"{a >> 8 & 0xFFFFFFFFFF:012d}"
    began = timestamp(a & 0xFFFFF, 0)
    context = f',"sessionContext":{{"attributes":{{"creationDate":"{began}","mfaAuthenticated":"false"}}}}'
    yield (
        f'"userIdentity":{{"type":"IAMUser","principalId":"AIDA{a >> 20 & 0xFFFFFFFF:08X}","accountId":"{account}",'
        f'"arn":"arn:aws:iam::{account}:user/{person}","userName":"{person}"{context if a >> 40 & 1 else ""}}}'
    )
    if a >> 41 & 3:
        extra = f',"maxItems":{a >> 43 & 1023}' if a >> 43 & 1 else ',"filter":{"prefix":"logs/","recursive":true}'
        yield f'"requestParameters":{{"bucketName":"bucket-{a >> 43 & 255}","encryption":"aws:kms"{extra}}}'
    if a >> 51 & 3 == 0:
        yield '"responseElements":' + ("null", '{"_return":true}', '"ok"')[a % 3]
    if a >> 53 & 1:
        one = f'{{"type":"AWS::S3::Object","ARN":"arn:aws:s3:::bucket-{a >> 43 & 255}/key","accountId":"{account}"}}'
        yield f'"resources":[{",".join([one] * (1 + (a >> 54 & 1)))}]'
    if a >> 55 & 3:
        yield '"tlsDetails":{"tlsVersion":"TLSv1.3","cipherSuite":"TLS_AES_128_GCM_SHA256"}'
