"""What runs inside a Spark task: read, parse, write, report. Nothing here is visible until it is committed."""
