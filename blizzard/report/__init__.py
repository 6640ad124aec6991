"""The report: `collect` gathers facts from the log, and `page`, a pure function, makes one HTML page of them."""
