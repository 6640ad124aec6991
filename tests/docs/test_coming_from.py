"""The pages for people who come from elsewhere: our side of each row exists, and their side is complete."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.parser import build_parser
from blizzard.config.keys import KEYS
from blizzard.config.load import COLUMN_FAMILIES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["from-auto-loader.md", "from-structured-streaming.md", "from-copy-into.md"]


def words(text: str) -> set[str]:
    return set(text.split())


# Databricks' "Auto Loader options", published 2026-03-16, and what was added to it until 2026-09.
CLOUD_FILES = words(
    """
    allowOverwrites backfillInterval cleanSource cleanSource.retentionDuration cleanSource.moveDestination
    format includeExistingFiles inferColumnTypes maxBytesPerTrigger maxFileAge maxFilesPerTrigger
    partitionColumns schemaEvolutionMode schemaHints schemaLocation useStrictGlobber validateOptions
    useIncrementalListing fetchParallelism pathRewrites resourceTag useManagedFileEvents useNotifications listOnStart
    region     restrictNotificationSetupToSameAWSAccountId queueUrl awsAccessKey awsSecretKey roleArn roleExternalId
    roleSessionName stsEndpoint resourceGroup subscriptionId clientId clientSecret connectionString tenantId
    queueName projectId client clientEmail privateKey privateKeyId subscription
    """
)
OF_FILES = words(
    """
    ignoreCorruptFiles ignoredPathSegmentRegex ignoreMissingFiles modifiedAfter modifiedBefore pathGlobFilter
    fileNamePattern
    recursiveFileLookup
    """
)
OF_JSON = words(
    """
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
    allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames badRecordsPath columnNameOfCorruptRecord
    dateFormat dropFieldIfAllNull encoding charset inferTimestamp lineSep locale mode multiLine prefersDecimal
    primitivesAsString readerCaseSensitive rescuedDataColumn singleVariantColumn timestampFormat timeZone
    alternateVariantEncoding maxNestingDepth maxNumLen maxStringLen timestampNTZFormat upgradeExceptionAsBadRecord
    """
)
# org.apache.spark.sql.execution.streaming.FileStreamOptions of Spark 4.1, which no function lists.
OF_FILE_STREAMS = words(
    """
    path maxFilesPerTrigger maxBytesPerTrigger latestFirst fileNameOnly maxFileAge maxCachedFiles
    discardCachedInputRatio cleanSource sourceArchiveDir
    """
)

# JSONOptions reads them, and does not list them with the others.
OF_THE_PARSER = words("maxNestingDepth maxNumLen maxStringLen")
# "COPY INTO" of Databricks; "COPY INTO <table>", with the JSON format, and "CREATE PIPE" of Snowflake.
OF_COPY_INTO = words(
    """
    FILEFORMAT FILES PATTERN FORMAT_OPTIONS COPY_OPTIONS VALIDATE CREDENTIAL ENCRYPTION
    STORAGE_INTEGRATION CREDENTIALS FILE_FORMAT FORMAT_NAME TYPE VALIDATION_MODE
    CLUSTER_AT_INGEST_TIME ENFORCE_LENGTH FILE_PROCESSOR FORCE INCLUDE_METADATA LOAD_MODE LOAD_UNCERTAIN_FILES
    MATCH_BY_COLUMN_NAME ON_ERROR PURGE RETURN_FAILED_ONLY SIZE_LIMIT TRUNCATECOLUMNS ENABLE_SCHEMA_EVOLUTION
    COMPRESSION DATE_FORMAT TIME_FORMAT TIMESTAMP_FORMAT BINARY_FORMAT TRIM_SPACE MULTI_LINE NULL_IF FILE_EXTENSION
    ENABLE_OCTAL ALLOW_DUPLICATE STRIP_OUTER_ARRAY STRIP_NULL_VALUES REPLACE_INVALID_CHARACTERS IGNORE_UTF8_ERRORS
    SKIP_BYTE_ORDER_MARK
    AUTO_INGEST ERROR_INTEGRATION AWS_SNS_TOPIC INTEGRATION COMMENT PIPE_EXECUTION_PAUSED REFRESH
    """
)


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def named(page: str) -> set[str]:
    """Every word in code that the page has."""
    return set(re.findall(r"`([^`\n]+)`", text_of(page)))


def theirs(page: str) -> set[str]:
    return {
        word for row in re.findall(r"^\| (.+?) \|", text_of(page), re.M) for word in re.findall(r"`(\w[\w.]*)`", row)
    }


def flags() -> set[str]:
    def of(parser: argparse.ArgumentParser) -> Iterator[str]:
        for action in parser._actions:
            yield from action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                for one in action.choices.values():
                    yield from of(one)

    return set(of(build_parser()))


@pytest.mark.parametrize("page", [*PAGES, "comparison.md"])
def test_every_key_flag_and_command_of_ours_exists(page: str) -> None:
    families = {name.split(".")[0] for name in KEYS if "." in name}
    keys, commands = 0, {a.dest: a for a in build_parser()._actions}["command"].choices or {}
    for code in named(page):
        # The scripts in jobs/ have flags of their own.
        ours = code.split("jobs/")[0]
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", ours):
            assert flag in flags(), (code, flag)
        for command in re.findall(r"^blizzard ([a-z-]+)", ours):
            assert command in commands, code
        if (found := re.match(r"([a-z_]+)\.[a-z_]+(?:\.[A-Z]+)?", ours)) and found.group(1) in families - {"spark"}:
            key = ".".join(found.group().split(".")[:2])
            assert key in KEYS or key in COLUMN_FAMILIES, code
            keys += 1
    assert keys > 10 or page == "comparison.md", "keys are no longer found on this page"


@pytest.mark.parametrize("page", PAGES)
def test_a_value_of_a_key_is_one_that_it_takes(page: str) -> None:
    for code in named(page):
        if found := re.fullmatch(r"([a-z_]+\.[a-z_]+)=(\w+)", code):
            key, value = found.groups()
            KEYS[key].parse(key, value)


def test_every_option_of_auto_loader_has_an_answer() -> None:
    wanted = {f"cloudFiles.{name}" for name in CLOUD_FILES} | {"databricks.serviceCredential"}
    assert wanted - named("from-auto-loader.md") == set()
    assert (OF_FILES | OF_JSON) - theirs("from-auto-loader.md") == set()
    assert {word for word in named("from-auto-loader.md") if word.startswith("cloudFiles.")} == wanted - {
        "databricks.serviceCredential"
    }, "an option that there is not"


def test_every_option_of_the_file_source_has_an_answer() -> None:
    assert (OF_FILE_STREAMS | OF_THE_PARSER) - theirs("from-structured-streaming.md") == set()


def test_every_option_of_copy_into_and_of_pipes_has_an_answer() -> None:
    rows = " ".join(re.findall(r"^\| (.+?) \|", text_of("from-copy-into.md"), re.M))
    assert OF_COPY_INTO - set(re.findall(r"\w+", rows)) == set()


@pytest.mark.spark
def test_every_option_that_this_spark_knows_has_an_answer(spark: Any) -> None:
    jvm, known = spark._jvm, {word.lower() for word in theirs("from-structured-streaming.md")}
    catalyst, execution = "org.apache.spark.sql.catalyst", "org.apache.spark.sql.execution"
    for name in (f"{catalyst}.json.JSONOptions", f"{execution}.datasources.FileIndexOptions"):
        module = jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)
        options = module.getAllOptions().toSeq()
        found = {options.apply(i).lower() for i in range(options.size())}
        assert len(found) > 5, name
        assert found - known == set(), name
