"""Entry point for spark-submit: takes the arguments of `blizzard run` and never names a master.

spark-submit jobs/ingest.py --source … --table … --config …
"""

from __future__ import annotations

import sys

from blizzard.cli.main import main

if __name__ == "__main__":
    code = main(["run", *sys.argv[1:]])
    # Notebooks and job services take any SystemExit for a failure: return normally on success.
    if code != 0:
        sys.exit(code)
