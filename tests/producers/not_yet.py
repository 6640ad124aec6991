"""What the first command cannot do yet, in one place. Used by conftest.py and by both tests of the first command."""

from __future__ import annotations

# Tests and producers that wait for something.
NEEDS = {
    "cloudtrail": "framing",
    "firehose": "framing",
    "otlp": "framing",
    "mongo": "framing",
    "mongo_canonical": "framing",
    "gcp": "framing",
    "azure": "framing",
    "test_every_framing": "framing",
    "test_a_bucket_of_all_framings": "framing",
    "test_text_that_looks_like_an_end": "framing",
    "test_bzip2": "decode",
    "test_xz": "decode",
    "test_names_that_lie_about_compression": "decode",
    "test_utf_16": "decode",
    "test_a_picture_named_json": "decode",
    "test_log_gz": "choosing",
    "test_the_advice_for_names_without_json_reads_all_of_them": "choosing",
    "test_the_schema_is_the_expected_one": "inference",
    "test_the_same_records_as_lines_give_the_same_table": "inference",
    "test_the_formats_that_are_proposed_make_times_of_them": "inference",
    "test_a_field_named_as_the_rescued_column": "inference that makes no column of it",
    "test_nine_digits": "inference",
    "test_many_tiny_files": "inference",
    "test_an_object_keyed_by_numbers": "inference",
    "test_labels_that_grow_without_end": "inference",
}
# The default pattern does not take .json yet.
PATTERN = "**"
