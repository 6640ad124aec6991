"""Spark's own way to S3: hadoop-aws with the few modules of the AWS SDK it uses, and the settings for an endpoint.

hadoop-aws asks for the SDK's bundle, one JAR of over 600 MB; the transfer manager and what it needs are 9 MB.
"""

from __future__ import annotations

from typing import Any

from tests.s3.endpoint import ACCESS_KEY, REGION, SECRET_KEY, S3Endpoint

# The versions belong together: Spark 4.1 ships Hadoop 3.4.2, which was built with this SDK.
S3A_PACKAGES = ["org.apache.hadoop:hadoop-aws:3.4.2", "software.amazon.awssdk:s3-transfer-manager:2.29.52"]

# The bundle, what Spark ships itself, and two libraries that S3A loads only when it is told to use them.
S3A_EXCLUDES = [
    "software.amazon.awssdk:bundle",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.httpcomponents:*",
    "io.netty:*",
    "commons-codec:*",
    "commons-logging:*",
    "org.slf4j:*",
    "org.wildfly.openssl:*",
    "software.amazon.s3.analyticsaccelerator:*",
]


def s3a_settings(endpoint: S3Endpoint, bucket: str | None = None) -> dict[str, str]:
    """Hadoop settings for one endpoint, for one bucket or for all."""
    prefix = "fs.s3a." if bucket is None else f"fs.s3a.bucket.{bucket}."
    settings = {
        "endpoint": endpoint.endpoint,
        "endpoint.region": REGION,
        "access.key": ACCESS_KEY,
        "secret.key": SECRET_KEY,
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    return {prefix + key: value for key, value in settings.items()}


def s3a_spark_conf(endpoint: S3Endpoint) -> dict[str, str]:
    """Spark settings for a new session or driver process. Delta's package has to stand beside S3A_PACKAGES."""
    return {
        "spark.jars.excludes": ",".join(S3A_EXCLUDES),
        **{f"spark.hadoop.{key}": value for key, value in s3a_settings(endpoint).items()},
    }


def point_bucket_at(spark: Any, bucket: str, endpoint: S3Endpoint) -> None:
    """Lets the running test session reach a bucket: through the server, or through a proxy in front of it."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in s3a_settings(endpoint, bucket).items():
        configuration.set(key, value)
