"""Access to a store: options with the names of delta-rs, used for delta-rs and for fsspec.

Without options both use the usual chain: environment, profile, role of the instance or container. Never shows a value:
not in a repr, not in an error.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.core.retry import RetryPolicy
from blizzard.errors import ConfigError
from blizzard.store.uri import is_local, split_bucket
from blizzard.text.redaction import is_secret, learn

_ALIASES = {
    "AWS_DEFAULT_REGION": "AWS_REGION",
    "AWS_ENDPOINT": "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3": "AWS_ENDPOINT_URL",
    "ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID",
    "SECRET_ACCESS_KEY": "AWS_SECRET_ACCESS_KEY",
    "GOOGLE_SERVICE_ACCOUNT_PATH": "GOOGLE_SERVICE_ACCOUNT",
    "AZURE_STORAGE_SAS_KEY": "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_ENDPOINT": "AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_CLIENT_ID": "AZURE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET": "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID": "AZURE_TENANT_ID",
}
_S3 = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL"),
    *("AWS_ALLOW_HTTP", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_SKIP_SIGNATURE", "AWS_REQUEST_PAYER"),
)
_GCS = (
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("GOOGLE_SKIP_SIGNATURE", "GOOGLE_BASE_URL"),
)
# As adlfs calls them.
_AZURE = {
    "AZURE_STORAGE_ACCOUNT_NAME": "account_name",
    "AZURE_STORAGE_ACCOUNT_KEY": "account_key",
    "AZURE_STORAGE_SAS_TOKEN": "sas_token",
    "AZURE_CLIENT_ID": "client_id",
    "AZURE_CLIENT_SECRET": "client_secret",
    "AZURE_TENANT_ID": "tenant_id",
}
KNOWN_OPTIONS = frozenset([*_S3, *_GCS, *_AZURE, "AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR"])
_ENDPOINTS = ("AWS_ENDPOINT_URL", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT")
_CONNECT_TIMEOUT_S = 10
_READ_TIMEOUT_S = 30
_MAX_CONNECTIONS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Travels to the tasks inside the closure of the Spark job, and nowhere else."""

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    read_timeout_s: float = _READ_TIMEOUT_S

    def get(self, name: str) -> str | None:
        return dict(self.options).get(name)

    def is_set(self, name: str) -> bool:
        return (self.get(name) or "").lower() in ("true", "1", "yes")

    def for_delta_rs(self, root: str) -> dict[str, str] | None:
        """Storage options of a DeltaTable; None for local disk."""
        if is_local(root):
            return None
        options = dict(self.options)
        if any(options.get(name, "").startswith("http://") for name in _ENDPOINTS):
            options.setdefault("AWS_ALLOW_HTTP" if root.startswith("s3:") else "allow_http", "true")
        # The same retry policy as for fsspec. By default delta-rs would retry for three minutes.
        options["max_retries"] = str(self.retry.attempts - 1)
        options["retry_timeout"] = f"{int(self.retry.attempts * (self.read_timeout_s + self.retry.max_ms / 1000))}s"
        options["timeout"] = f"{int(self.read_timeout_s)}s"
        options["connect_timeout"] = f"{_CONNECT_TIMEOUT_S}s"
        return options

    def for_s3fs(self) -> dict[str, Any]:
        given = {
            "key": self.get("AWS_ACCESS_KEY_ID"),
            "secret": self.get("AWS_SECRET_ACCESS_KEY"),
            "token": self.get("AWS_SESSION_TOKEN"),
            "endpoint_url": self.get("AWS_ENDPOINT_URL"),
        }
        region = self.get("AWS_REGION")
        virtual = self.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
        style = "auto" if virtual is None else "virtual" if virtual.lower() == "true" else "path"
        return {
            **{name: value for name, value in given.items() if value is not None},
            "anon": self.is_set("AWS_SKIP_SIGNATURE"),
            "requester_pays": (self.get("AWS_REQUEST_PAYER") or "") in ("requester", "true"),
            "client_kwargs": {} if region is None else {"region_name": region},
            "config_kwargs": {
                "connect_timeout": _CONNECT_TIMEOUT_S,
                "read_timeout": self.read_timeout_s,
                "max_pool_connections": _MAX_CONNECTIONS,
                "retries": {"total_max_attempts": 1},  # the policy above is the only one
                "s3": {"addressing_style": style},
                # Some S3-compatible servers do not know the checksums that newer clients add by default.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
        }

    def for_gcsfs(self) -> dict[str, Any]:
        """A key file, a key, or nothing: then gcsfs searches like Google's own clients."""
        inline = self.get("GOOGLE_SERVICE_ACCOUNT_KEY")
        token: Any = self.get("GOOGLE_SERVICE_ACCOUNT") or self.get("GOOGLE_APPLICATION_CREDENTIALS")
        if inline is not None:
            try:
                token = json.loads(inline)
            except ValueError:  # its text would show a part of the key
                raise ConfigError("GOOGLE_SERVICE_ACCOUNT_KEY is not JSON", kind=Kind.BAD_CREDENTIALS) from None
        if self.is_set("GOOGLE_SKIP_SIGNATURE"):
            token = "anon"
        return {"token": token, "endpoint_url": self.get("GOOGLE_BASE_URL")}

    def for_adlfs(self, root: str) -> dict[str, Any]:
        options = {_AZURE[name]: value for name, value in self.options if name in _AZURE}
        if root.startswith("abfss:"):
            host = split_bucket(root)[0].split("@", 1)[1]
            options["account_name"] = host.split(".", 1)[0]
            options["account_host"] = host.replace(".dfs.", ".blob.", 1)
        endpoint = self.get("AZURE_STORAGE_ENDPOINT")
        if self.is_set("AZURE_STORAGE_USE_EMULATOR"):  # as delta-rs finds it
            host = os.environ.get("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000")
            endpoint = f"{host}/{options.setdefault('account_name', 'devstoreaccount1')}"
        if endpoint is not None:
            # Only a connection string can give adlfs another host with a scheme and a path.
            parts = {
                "BlobEndpoint": endpoint,
                "AccountName": options.get("account_name"),
                "AccountKey": options.get("account_key"),
                "SharedAccessSignature": options.get("sas_token"),
            }
            options["connection_string"] = ";".join(f"{name}={value}" for name, value in parts.items() if value)
        return options


NO_ACCESS = Access()


def make_access(
    options: Mapping[str, Any],
    *,
    retry: RetryPolicy,
    what: str = "storage_options",
    read_timeout_s: float = _READ_TIMEOUT_S,
) -> Access:
    """Checks the names and makes them upper case. Values are taken as they are."""
    checked: dict[str, str] = {}
    for raw, value in options.items():
        upper = raw.upper()
        name = _ALIASES.get(upper, upper)
        if is_secret(name) or name not in KNOWN_OPTIONS:
            learn(value)
        if name == "AWS_PROFILE":
            raise ConfigError(
                f"{what}.{raw}: choose a profile by the environment variable AWS_PROFILE", kind=Kind.UNKNOWN_KEY
            )
        if name not in KNOWN_OPTIONS:
            near = difflib.get_close_matches(name, sorted(KNOWN_OPTIONS), n=1, cutoff=0.0)
            raise ConfigError(f"unknown key {what}.{raw}; did you mean {near[0]}?", kind=Kind.UNKNOWN_KEY)
        checked[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return Access(options=tuple(sorted(checked.items())), retry=retry, read_timeout_s=read_timeout_s)


_S3A = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint.region": "AWS_REGION",
    "endpoint": "AWS_ENDPOINT_URL",
    "path.style.access": "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
}


def options_of_spark(conf: Mapping[str, str], root: str) -> dict[str, str]:
    """The S3 options in a Spark configuration (`fs.s3a.*`; `fs.s3a.bucket.NAME.*` takes precedence)."""
    if not root.startswith("s3://"):
        return {}
    settings = {key.removeprefix("spark.hadoop."): value for key, value in conf.items()}
    bucket = split_bucket(root)[0]
    found = {}
    for name, option in _S3A.items():
        value = settings.get(f"fs.s3a.bucket.{bucket}.{name}", settings.get(f"fs.s3a.{name}"))
        if value:
            found[option] = value
    if "AWS_ENDPOINT_URL" in found and "://" not in found["AWS_ENDPOINT_URL"]:
        plain = settings.get("fs.s3a.connection.ssl.enabled", "true").lower() == "false"
        found["AWS_ENDPOINT_URL"] = f"{'http' if plain else 'https'}://{found['AWS_ENDPOINT_URL']}"
    if "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" in found:  # the opposite of path style
        path_style = found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"].lower() == "true"
        found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = "false" if path_style else "true"
    return found
