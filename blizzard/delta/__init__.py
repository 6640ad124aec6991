"""The Delta log: read backwards for recovery, appended to by a committer."""
