"""The report: facts collected from the log (`collect`), made into one HTML page by a pure function (`page`)."""
