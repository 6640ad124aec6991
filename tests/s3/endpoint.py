"""Something that speaks S3 on a URL, the test server or a proxy in front of it, and the clients for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from s3fs import S3FileSystem

ACCESS_KEY = "blizzard-test"
SECRET_KEY = "blizzard-test-secret"
REGION = "us-east-1"


class S3Endpoint:
    """The clients of one URL. A proxy passes the Host header on, so the same keys sign for it and for the server."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @property
    def storage_options(self) -> dict[str, str]:
        """For delta-rs."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def filesystem(self, **options: Any) -> S3FileSystem:
        """A new s3fs file system that caches nothing."""
        from s3fs import S3FileSystem

        return S3FileSystem(
            key=ACCESS_KEY,
            secret=SECRET_KEY,
            endpoint_url=self.endpoint,
            client_kwargs={"region_name": REGION},
            skip_instance_cache=True,
            use_listings_cache=False,
            **options,
        )

    def client(self, **config: Any) -> Any:
        """A botocore client that tries everything once: what a test sends is what arrives."""
        from botocore.config import Config
        from botocore.session import Session

        once = Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}, **config)
        return Session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            config=once,
        )
