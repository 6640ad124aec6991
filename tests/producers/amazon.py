"""CloudTrail's log files and what Firehose leaves in a bucket, after the field lists that AWS documents."""

from __future__ import annotations

from typing import Any

from tests.producers.made import Files, Maker, Producer, Record, array, at, compact, concatenated, iso, parts, zipped

_ACCOUNT = "111122223333"
_REGION = "eu-central-1"


def _arn(service: str, what: str) -> str:
    return f"arn:aws:{service}:{_REGION}:{_ACCOUNT}:{what}"


def _identity(make: Maker, number: int) -> Record:
    """Who called. A role has a session, a service is only named."""
    if number % 5 == 4:
        return {"type": "AWSService", "invokedBy": f"{make.word()}.amazonaws.com"}
    user = make.word()
    who: Record = {
        "type": "IAMUser",
        "principalId": f"AIDA{make.name(True, 16)}",
        "arn": f"arn:aws:iam::{_ACCOUNT}:user/{user}",
        "accountId": _ACCOUNT,
        "accessKeyId": f"AKIA{make.name(True, 16)}",
        "userName": user,
    }
    if number % 2:
        who["type"] = "AssumedRole"
        del who["userName"]
        who["sessionContext"] = {
            "sessionIssuer": {
                "type": "Role",
                "principalId": f"AROA{make.name(True, 16)}",
                "arn": f"arn:aws:iam::{_ACCOUNT}:role/{user}",
                "accountId": _ACCOUNT,
                "userName": user,
            },
            "webIdFederationData": {},
            "attributes": {"creationDate": iso(number - 9), "mfaAuthenticated": "false"},
        }
    return who


def _list_buckets(make: Maker, number: int) -> Record:
    host = f"s3.{_REGION}.amazonaws.com"
    return {
        "eventSource": "s3.amazonaws.com",
        "eventName": "GetBucketAcl",
        # S3 writes parameters of the query as they came: one text, or several.
        "requestParameters": {
            "bucketName": make.word(),
            "Host": [host, make.word()] if number % 3 else host,
            "acl": "",
        },
        "responseElements": None,
        "additionalEventData": {
            "SignatureVersion": "SigV4",
            "CipherSuite": "TLS_AES_128_GCM_SHA256",
            "bytesTransferredIn": 0 if number % 4 else 0.0,
            "bytesTransferredOut": make.below(90_000),
            "x-amz-id-2": f"{make.name(digits=20)}+/=",
        },
        "resources": [
            {"type": "AWS::S3::Object", "ARNPrefix": "arn:aws:s3:::b/"},
            {"accountId": _ACCOUNT, "type": "AWS::S3::Bucket", "ARN": f"arn:aws:s3:::{make.word()}"},
        ],
    }


def _run_instances(make: Maker, number: int) -> Record:
    instance = {"instanceId": f"i-{make.hex(17)}", "currentState": {"code": number % 2 * 16, "name": "pending"}}
    return {
        "eventSource": "ec2.amazonaws.com",
        "eventName": "RunInstances",
        "requestParameters": {
            "instancesSet": {"items": [{"imageId": f"ami-{make.hex(8)}", "minCount": 1, "maxCount": 1 + number % 3}]},
            "instanceType": "t3.micro",
            "disableApiTermination": False,
            "tagSpecificationSet": {"items": [{"resourceType": "instance", "tags": [{"key": "n", "value": "v"}]}]},
        },
        "responseElements": {"requestId": make.uuid(), "instancesSet": {"items": [instance]}, "_return": True},
    }


def _put_secret(make: Maker, number: int) -> Record:
    """Secrets Manager spells one name in three ways."""
    spelling = ("arn", "ARN", "aRN")[number % 3]
    return {
        "eventSource": "secretsmanager.amazonaws.com",
        "eventName": "PutSecretValue",
        "requestParameters": {"clientRequestToken": make.uuid(), "secretId": make.word(), "maxResults": number % 50},
        "responseElements": {spelling: _arn("secretsmanager", f"secret:{make.word()}"), "name": make.word()},
        "resources": [{"accountId": _ACCOUNT, "type": "AWS::SecretsManager::Secret", spelling: _arn("kms", "key/1")}],
    }


def _decrypt(make: Maker, number: int) -> Record:
    context = {"aws:lambda:FunctionArn": _arn("lambda", f"function:{make.word()}")} if number % 2 else {}
    return {
        "eventSource": "kms.amazonaws.com",
        "eventName": "Decrypt",
        "requestParameters": {"encryptionAlgorithm": "SYMMETRIC_DEFAULT", "encryptionContext": context},
        "responseElements": None,
        "resources": [{"accountId": _ACCOUNT, "type": "AWS::KMS::Key", "ARN": _arn("kms", f"key/{make.uuid()}")}],
    }


def _by_text(make: Maker, number: int) -> Record:
    """Parameters as one text, an error, and a number that others write as text."""
    return {
        "eventSource": "logs.amazonaws.com",
        "eventName": "StartQuery",
        "errorCode": "AccessDenied",
        "errorMessage": f'User: "{make.word()}" is not authorized',
        "requestParameters": compact({"query": "fields @message | limit 20"}) if number % 2 else {"maxResults": "50"},
        "responseElements": None,
        "apiVersion": "2014-03-28",
    }


def _console_login(make: Maker, number: int) -> Record:
    return {
        "eventSource": "signin.amazonaws.com",
        "eventName": "ConsoleLogin",
        "requestParameters": None,
        "responseElements": {"ConsoleLogin": "Success" if number % 4 else "Failure"},
        "additionalEventData": {"LoginTo": "https://console.aws.amazon.com/", "MobileVersion": "No", "MFAUsed": "Yes"},
        "eventType": "AwsConsoleSignIn",
    }


_CALLS = (_list_buckets, _run_instances, _put_secret, _decrypt, _by_text, _console_login)


def _call(make: Maker, number: int) -> Record:
    specific = _CALLS[number % len(_CALLS)](make, number // len(_CALLS))
    record: Record = {
        "eventVersion": "1.09",
        "userIdentity": _identity(make, number),
        "eventTime": iso(number),
        "awsRegion": _REGION,
        "sourceIPAddress": make.ip() if number % 5 != 4 else "AWS Internal",
        "userAgent": f'[aws-cli/2.15.{number % 30} Python/3.11.6 exec-env/"{make.word()}"]',
        "requestID": make.uuid(),
        "eventID": make.uuid(),
        "readOnly": number % 2 == 0,
        "eventType": "AwsApiCall",
        "managementEvent": True,
        "recipientAccountId": _ACCOUNT,
        "eventCategory": "Management",
    }
    if number % 3 == 0:
        record["tlsDetails"] = {
            "tlsVersion": "TLSv1.3",
            "cipherSuite": "TLS_AES_128_GCM_SHA256",
            "clientProvidedHostHeader": "example.amazonaws.com",
        }
    if number % 11 == 0:
        record |= {"sharedEventID": make.uuid(), "vpcEndpointId": f"vpce-{make.hex(8)}"}
    return record | specific


def cloudtrail() -> Files:
    """Many tiny files, each one object with all records in an array."""
    make = Maker("cloudtrail")
    files = {}
    for i, piece in enumerate(parts([_call(make, number) for number in range(330)], 110)):
        moment = at(i * 3)
        folder = f"AWSLogs/{_ACCOUNT}/CloudTrail/{_REGION}/{moment:%Y/%m/%d}"
        name = f"{_ACCOUNT}_CloudTrail_{_REGION}_{moment:%Y%m%dT%H%MZ}_{make.name(True, 16)}.json.gz"
        files[f"{folder}/{name}"] = zipped(b'{"Records":' + array(piece) + b"}")
    return files


def _log_event(make: Maker, number: int, part: int) -> Record:
    messages: list[Any] = [
        f"START RequestId: {make.uuid()} Version: $LATEST\n",
        compact({"level": "info", "msg": f'said "{make.words()}"', "n": number}),
        '}{ is no end of a record, nor is "}{" or \\"}{',
        f"2 {_ACCOUNT} eni-{make.hex(8)} {make.ip()} {make.ip()} 443 {number} 6 10 840 ACCEPT OK",
    ]
    return {"id": make.digits(56), "timestamp": 1769900287000 + number * 1000, "message": messages[(number + part) % 4]}


def _subscription(make: Maker, number: int) -> Record:
    """What CloudWatch Logs sends through Firehose."""
    return {
        "messageType": "DATA_MESSAGE" if number % 25 else "CONTROL_MESSAGE",
        "owner": _ACCOUNT,
        "logGroup": f"/aws/lambda/{make.word()}",
        "logStream": f"{at(number):%Y/%m/%d}/[$LATEST]{make.hex(32)}",
        "subscriptionFilters": [f"{make.word()}-to-firehose"],
        "logEvents": [_log_event(make, number, part) for part in range(number % 4)],
    }


def firehose() -> Files:
    """Objects one after the other, with nothing between them. The names end in nothing that says so."""
    make = Maker("firehose")
    files = {}
    for i, piece in enumerate(parts([_subscription(make, number) for number in range(240)], 8)):
        moment = at(i * 90)
        name = f"{moment:%Y/%m/%d/%H}/logs-to-bucket-1-{moment:%Y-%m-%d-%H-%M-%S}-{make.uuid()}"
        content = concatenated(piece)
        files[name + (".gz" if i % 2 else "")] = zipped(content) if i % 2 else content
    return files


PRODUCERS = (
    Producer(name="cloudtrail", files=cloudtrail, key="Records"),
    Producer(name="firehose", files=firehose, pattern="**"),
)
