"""What a URI may carry and nobody is to read: not in a message, not in an identity that a checkpoint stores."""

from __future__ import annotations

import pytest

from blizzard.core.retry import RetryPolicy
from blizzard.delta.errors import cannot_open
from blizzard.delta.handles import open_handle
from blizzard.errors import BlizzardError
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.store.access import make_access
from blizzard.text.redaction import redact


@pytest.mark.parametrize(
    "uri",
    [
        "https://AKIAX:TOPSECRET@bucket.s3.amazonaws.com/x",
        "https://bucket.s3.amazonaws.com/x.ndjson?X-Amz-Credential=AKIAX&X-Amz-Signature=TOPSECRET",
        "s3://AKIAX:TOPSECRET@bucket/path",
        "gs://TOPSECRET@bucket/path",
    ],
)
def test_a_secret_in_a_uri_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(BlizzardError) as refused:
        locate_source(uri)
    assert "TOPSECRET" not in str(refused.value)


def test_a_password_in_an_endpoint_is_not_repeated_by_what_delta_rs_says() -> None:
    options = {"AWS_ENDPOINT_URL": "http://user:TOPSECRET@127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a"}
    options |= {"AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    access = make_access(options, retry=RetryPolicy(attempts=1), read_timeout_s=2)
    with pytest.raises(OSError, match="error sending request") as failed:
        open_handle("s3://bucket/x", access)
    text = str(cannot_open("the table", open_store("s3://bucket/x", access), failed.value))
    assert "127.0.0.1:9" in text
    assert "TOPSECRET" not in text


@pytest.mark.parametrize(
    "text", ["abfss://container@account.dfs.core.windows.net/a", "a?b.ndjson", "s3://b/what?.json"]
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert redact(text) == text
