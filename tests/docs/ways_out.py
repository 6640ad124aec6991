"""Which test produces the state of an error kind, follows docs/operate.md by the letter, and compares every record.

By exit code, since some kinds have several. Where nothing can be followed (no kind of its own, a setting to change, a
component to install) the test shows the kind and its code.
"""

from __future__ import annotations

_START = "tests/operate/test_ways_out_of_a_start.py::"
_FILES = "tests/operate/test_ways_out_of_files.py::"
_DATA = "tests/operate/test_ways_out_of_data.py::"
_LOG = "tests/operate/test_ways_out_of_the_log.py::"
_QUARANTINE = "tests/operate/test_ways_out_of_quarantine.py::"
_AGAIN = "tests/operate/test_ways_out_run_again.py::"
_DISK = "tests/run/test_disk_trouble.py::"
_COMMIT = "tests/run/test_commit.py::"
_READER = "tests/run/test_second_reader.py::"
_REGRESSIONS = "tests/regressions/test_regressions.py::"
_CHOOSE = "tests/operate/test_choose.py::"
_SPARK = "tests/spark/test_delta_spark.py::"

RUN_AGAIN = {  # exit 75
    "store_unavailable": _AGAIN + "test_store_unavailable",
    "commit_failed": _AGAIN + "test_commit_failed",
    "schema_changed": ("tests/run/test_evolution.py::test_a_schema_changed_between_writing_and_committing_is_noticed"),
    "source_changed": ("tests/run/test_recover.py::test_a_file_that_changes_while_it_is_read_is_not_committed"),
    "interrupted": "tests/spark/test_kill.py::test_a_second_signal_or_the_end_of_the_grace_discards_the_batch",
    "files_gone": "tests/operate/test_one_version.py::test_a_vacuum_that_never_ends_ends_the_run_and_harms_nothing",
    "spark_job": _AGAIN + "test_spark_job",
    "spark_gone": "tests/spark/test_spark_gone.py::test_killed_in_a_batch",
    "spark_session": "tests/spark/test_spark_gone.py::test_killed_while_it_starts",
    "batch_too_old": _AGAIN + "test_batch_too_old",
    "disk_full": _DISK + "test_a_disk_that_is_full_when_the_commit_comes",
    "mirror_unavailable": "tests/mirror/test_recovery.py::test_mirror_unavailable",
    "table_busy": _SPARK + "test_a_log_that_moves_at_every_look_is_worth_a_retry",
    "table_unreadable": _LOG + "test_table_unreadable",
    "table_create": _REGRESSIONS + "test_a_table_below_a_regular_file_is_a_mistake_of_the_command",
    "quarantine_failed": _AGAIN + "test_quarantine_failed",
    "quarantine_changed": (
        "tests/quarantine/test_records_that_leave.py::test_a_file_that_was_vacuumed_meanwhile_is_no_damage"
    ),
    "quarantine_vanished": (
        "tests/quarantine/test_head.py::test_a_file_of_bad_records_that_is_gone_before_the_commit_stops_it"
    ),
    "temporary": _DISK + "test_an_error_of_the_operating_system_that_nobody_caught_has_a_kind",
}

FENCED = {"fenced": _AGAIN + "test_fenced"}  # exit 4

A_PERSON_DECIDES = {  # exit 3
    "table_has_data": _START + "test_table_has_data_of_this_source_by_another_program",
    "source_read_by_other": _READER + "test_a_second_name_is_refused_and_the_text_goes_on_with_the_first",
    "several_pipelines": _READER + "test_of_several_pipelines_over_the_source_one_has_to_be_named",
    "position_not_found": (
        "tests/operate/test_positions_in_checkpoints.py::test_a_lost_position_is_imported_from_an_export"
    ),
    "damaged_checkpoint": _START + "test_damaged_checkpoint",
    "stale_checkpoint": _LOG + "test_stale_checkpoint",
    "table_rewritten": _LOG + "test_table_rewritten",
    "log_rewritten": _LOG + "test_log_rewritten",
    "table_replaced": _START + "test_table_replaced",
    "log_gap": _LOG + "test_a_commit_is_restored",
    "log_damaged": _LOG + "test_a_commit_is_restored",
    "other_source": _START + "test_other_source_where_the_files_were_moved",
    "start_from_rejected": _START + "test_start_from_rejected",
    "adopt_rejected": _START + "test_adopt_rejected_where_its_position_says_nothing",
    "late_unclear": _FILES + "test_late_unclear_is_answered_file_by_file",
    "source_changed": _FILES + "test_source_changed_and_its_beginning_is_as_it_was",
    "beyond_end": _FILES + "test_beyond_end",
    "newer_checkpoint": _LOG + "test_newer_checkpoint",
    "files_below_mark": _CHOOSE + "test_files_below_mark_is_answered_with_a_word",
    "files_in_progress": _CHOOSE + "test_files_in_progress_are_finished_first_or_given_up",
    "too_many_prefixes": _FILES + "test_too_many_prefixes_in_a_pipeline_that_has_begun",
    "table_feature": _SPARK + "test_tables_that_delta_rs_cannot_write_are_written",
    "unsupported_table": _QUARANTINE + "test_unsupported_table",
    "catalog_managed": _SPARK + "test_a_catalog_managed_table_is_refused",
    "not_arbitrated": _SPARK + "test_where_sparks_log_store_does_not_arbitrate_it_asks_for_your_word",
    "append_only": _LOG + "test_append_only",
    "quarantine_damaged": _QUARANTINE + "test_quarantine_damaged",
    "quarantine_lost": _QUARANTINE + "test_quarantine_lost",
    "quarantine_ahead": _QUARANTINE + "test_quarantine_ahead",
    "quarantine_behind": _QUARANTINE + "test_quarantine_behind_and_its_files_are_gone_too",
    "quarantine_moved": _QUARANTINE + "test_quarantine_moved",
    "import_mismatch": _LOG + "test_import_mismatch_of_an_older_position",
    "position_changed": _LOG + "test_position_changed",
    "paused": "tests/cli/test_pause_command.py::test_a_replay_of_a_paused_pipeline_says_the_way_out",
    "rollback_target": _LOG + "test_rollback_target",
    "rollback_ledger": _LOG + "test_rollback_ledger",
    "rollback_files": _LOG + "test_rollback_files",
    "rollback_source": _LOG + "test_rollback_source",
    "rollback_schema": _LOG + "test_rollback_schema",
    "rollback_replay": _LOG + "test_rollback_replay",
    "rollback_changed": _LOG + "test_rollback_changed",
    "refused": "",
}

_HELD = "tests/s3/test_source.py::test_one_object_that_cannot_be_had_is_held_back_and_named_and_the_others_are_read"

DATA = {  # exit 5
    "bad_record": _FILES + "test_bad_record_in_a_file_of_which_a_part_is_committed",
    "missing_value": _DATA + "test_missing_value",
    "mostly_bad": _DATA + "test_mostly_bad",
    "transform_failed": _DATA + "test_transform_failed",
    "no_records": "tests/cli/test_try.py::test_without_a_record_it_exits_with_5",
    "too_many_bad_records": _FILES + "test_too_many_bad_records",
    "truncated": _FILES + "test_a_file_that_cannot_be_read_to_its_end",
    "corrupt": _DATA + "test_wrong_compression_and_corrupt",
    "wrong_compression": _DATA + "test_wrong_compression_and_corrupt",
    "wrong_encoding": _DATA + "test_wrong_encoding",
    "other_kind": _DATA + "test_other_kind",
    "bad_path": _DATA + "test_bad_path",
    "unreadable": _HELD,
    "unavailable": _HELD,
    "archived": _HELD,
    "too_many_held_files": _FILES + "test_too_many_held_files",
    "unreadable_files": _DATA + "test_unreadable_files",
    "late_files": _FILES + "test_late_files",
    "rewritten_files": _FILES + "test_rewritten_files",
    "source_name": _DATA + "test_names_that_cannot_be_read",
    "source_linked_folder": _DATA + "test_names_that_cannot_be_read",
    "source_is_directory": _DATA + "test_names_that_cannot_be_read",
    "source_not_readable": _DATA + "test_names_that_cannot_be_read",
    "nothing_to_infer_from": _DATA + "test_nothing_to_infer_from",
    "quarantine_full": _DATA + "test_quarantine_full",
    "schema_unstable": _DATA + "test_schema_unstable",
    "too_many_columns": _DATA + "test_too_many_columns",
    "bad_data": "",
    "bad_file": "",
}

_CLI, _LISTING, _STORES = "tests/cli/test_cli.py::", "tests/source/test_listing.py::", "tests/s3/test_source.py::"
_DERIVED, _VERSIONS, _INFER = (
    "tests/schema/test_derived.py::",
    "tests/spark/test_versions.py::",
    "tests/run/test_infer.py::",
)
_TRANSFORMS = "tests/run/test_transforms.py::"
_GCS = "tests/store/test_errors.py::"

USAGE = {  # exit 2: the text says what to change
    "usage": _CLI + "test_usage_and_configuration_end_with_two_and_an_object",
    "config": _CLI + "test_usage_and_configuration_end_with_two_and_an_object",
    "unknown_key": _CLI + "test_usage_and_configuration_end_with_two_and_an_object",
    "schema_missing": _DATA + "test_schema_missing",
    "where": "tests/schema/test_where.py::test_what_cannot_be_used_is_refused_with_its_name",
    "schema": _INFER + "test_contradicting_and_misspelt_flags_end_with_two",
    "schema_mismatch": "tests/spark/test_bad_input.py::test_a_schema_that_does_not_fit_the_table_is_explained",
    "transform": _TRANSFORMS + "test_a_statement_that_cannot_be_used_is_refused_before_anything_is_read",
    "transform_differs": _TRANSFORMS + "test_a_worker_that_would_run_something_else_stops_the_run",
    "layout_mismatch": _DERIVED + "test_options_that_contradict_the_table_are_refused",
    "layout_unknown": _DERIVED + "test_a_derivation_of_another_version_is_refused",
    "no_file_matches": "tests/run/test_choosing.py::test_no_file_matches",
    "no_records": _INFER + "test_schema_infer_says_why_there_is_none",
    "not_built": "tests/spark/test_changing_data.py::test_widening_is_refused_with_what_can",
    "source_not_found": "tests/spark/test_bad_input.py::test_a_source_that_does_not_exist_is_a_configuration_error",
    "table_not_found": _CLI + "test_looking_at_no_table_is_a_clear_error",
    "checkpoint_not_found": _LOG + "test_checkpoint_not_found",
    "not_a_delta_table": "tests/spark/test_bad_input.py::test_a_path_that_is_no_delta_table_is_left_alone",
    "not_a_quarantine_table": "tests/quarantine/test_contents.py::test_a_foreign_table_is_never_touched",
    "unsupported_scheme": _LISTING + "test_a_location_that_cannot_be_used_is_named",
    "no_bucket": _STORES + "test_what_a_retry_would_not_mend_is_said_at_once_and_says_what_to_do",
    "wrong_region": _STORES + "test_what_a_retry_would_not_mend_is_said_at_once_and_says_what_to_do",
    "access_denied": _STORES + "test_what_a_retry_would_not_mend_is_said_at_once_and_says_what_to_do",
    "no_credentials": _GCS + "test_gcs_says_at_once_what_a_retry_would_not_mend",
    "bad_credentials": _STORES + "test_what_a_retry_would_not_mend_is_said_at_once_and_says_what_to_do",
    "clock_skew": _STORES + "test_a_clock_that_is_an_hour_off_is_said",
    "store": _GCS + "test_gcs_says_at_once_what_a_retry_would_not_mend",
    "no_java": _CLI + "test_no_java_is_one_clear_line",
    "wrong_java": _VERSIONS + "test_a_java_that_spark_does_not_know",
    "no_user_name": "tests/spark/test_user.py::test_the_committer_that_works_through_hadoop_needs_a_name",
    "spark_version": _VERSIONS + "test_a_spark_that_is_too_old_or_too_new",
    "delta_version": _VERSIONS + "test_delta_for_another_spark",
    "no_jvm": (
        "tests/cluster/test_connect.py::test_the_committer_that_needs_a_jvm_is_refused_before_anything_is_asked_for"
    ),
    "no_delta_jars": _SPARK + "test_without_deltas_jars_it_says_what_to_install",
    "no_archive": "tests/spark/test_archive.py::test_where_there_can_be_none_warm_up_says_why",
    "no_connect": "",
    "python_mismatch": _VERSIONS + "test_executors_with_another_python",
    "worker_environment": _VERSIONS + "test_executors_with_another_python",
    "summary": "tests/store/test_outputs.py::test_a_folder_or_nowhere_is_refused",
    "file_exists": "tests/quarantine/test_contents.py::test_export_never_overwrites_unless_told_to",
    "output": "tests/text/test_streams.py::test_output_that_is_lost_is_an_error_of_a_command_that_only_prints",
    "not_writable": _DISK + "test_a_place_that_may_not_be_written",
    "unusable_path": _DISK + "test_an_error_of_the_operating_system_that_nobody_caught_has_a_kind",
    "not_confirmed": _LOG + "test_rollback_shows_first_and_does_it_when_told",
    "api_token": "tests/service/test_http.py::test_an_address_that_others_can_reach_needs_a_token",
    "port_in_use": "tests/service/test_http.py::test_a_port_in_use_is_told",
    "fleet": (
        "tests/config/test_fleet_file.py::test_two_pipelines_that_would_double_a_record_are_refused_with_both_names"
    ),
}

NOT_FORESEEN = {
    "internal": "tests/text/test_streams.py::test_what_is_not_foreseen_is_one_line_and_a_traceback_only_where_asked"
}

THINGS = {  # the words in bold of "Things people do"
    "Stop it.": "tests/spark/test_kill.py::test_a_first_sigterm_lets_the_batch_end_and_commits_it",
    "Commit now": "tests/service/test_operation.py::",
    "Pause it": "tests/operate/test_pause.py::test_a_paused_pipeline_reads_nothing_until_it_is_resumed",
    "Read a file again": "tests/delta/test_hostile_log.py::test_a_file_that_broke_is_read_again_from_where_it_broke",
    "Undo the last batches": _LOG + "test_rollback_shows_first_and_does_it_when_told",
    "Read other files": _CHOOSE + "test_what_the_mark_has_passed_is_read_once_or_left_out_for_good",
    "Start at a date": "tests/run/test_choosing.py::test_start_from_a_date_reads_what_was_changed_since",
    "Run without `--pipeline`": _READER + "test_without_a_name_a_run_goes_on_with_the_pipeline_that_reads_the_source",
    "Move a source": _START + "test_other_source_where_the_files_were_moved",
    "Move or back up the position": (
        "tests/delta/test_hostile_log.py::test_a_position_can_be_moved_to_a_copy_of_the_table"
    ),
    "What will the next run do?": "tests/run/test_preview.py::",
    "Is everything in?": "tests/operate/test_audit_counts.py::",
    "Free space of failed attempts": "tests/operate/test_orphans.py::test_orphans_are_files_that_nothing_names",
    "OPTIMIZE, DELETE, UPDATE, MERGE": _COMMIT + "test_other_writers_at_work_are_survived",
    "VACUUM": "tests/operate/test_one_version.py::test_files_that_are_gone_before_their_commit_are_read_again",
}
