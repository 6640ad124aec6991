"""The command line: thin over everything else, and imported by nobody."""
