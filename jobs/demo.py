"""The demo: ingest, kill -9 in the middle of a batch, resume, and count. Everything it makes is below demo/.

`make demo` runs it. It exits 1 if a record is missing or there twice.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable

from blizzard.testing.samples import write_events

_HOME = Path("demo")
_EVENTS, _TABLE, _REPORT = _HOME / "events", _HOME / "table", _HOME / "report.html"
_FILES, _RECORDS_PER_FILE, _RECORDS_PER_COMMIT = 8, 10_000, 25_000
_RECORDS = _FILES * _RECORDS_PER_FILE
_RUN = f"blizzard run --source {_EVENTS} --table {_TABLE} --infer --set limits.max_records={_RECORDS_PER_COMMIT}"
_PATIENCE_S = 180


def main() -> int:
    shutil.rmtree(_HOME, ignore_errors=True)
    _tell(
        f"1. Something to ingest, in {_EVENTS}: {_FILES} gzip files, {_RECORDS:,} events, and one line that is cut off."
    )
    write_events(str(_EVENTS), files=_FILES, records=_RECORDS_PER_FILE)
    with open(_EVENTS / "events-00002.ndjson.gz", "ab") as last:
        last.write(gzip.compress(b'{"id": 29999, "ts": "2024-03-01T08:1\n'))

    _tell(f"""2. Ingest them, {_RECORDS_PER_COMMIT:,} records a commit, and kill the driver in the middle of a batch.
        No handler runs, nothing is cleaned up.""")
    _run_and_kill()
    _tell(f"""The table has {_count():,} records, at version {_version()}. Parquet files of the batch that was killed:
        {len(_unfinished())}. No commit names them, so no reader sees them.""")

    _tell("""3. The same command again. The position is in the Delta log, in the same commit as the records, so it goes
        on exactly there.""")
    _command(_RUN, prints=False)

    _tell("4. The line that was cut off is in a table beside the target, with its bytes and the reason.")
    _command(f"blizzard dlq list --table {_TABLE}")

    _tell("5. One HTML page with the history, the throughput and the state of the pipeline.")
    _command(f"blizzard report --table {_TABLE} --out {_REPORT}")

    _tell("6. Is each record there exactly once?")
    code = _prove()
    _tell("Your own files: `.venv/bin/blizzard try FOLDER` says what they would become, without Spark or a table.")
    return code


def _run_and_kill() -> None:
    """A real driver; it is killed when its next batch is being written after a commit."""
    with _started(_RUN, prints=False) as driver:
        deadline = time.monotonic() + _PATIENCE_S
        while not (_version() >= 1 and _unfinished()):
            if driver.poll() is not None:
                sys.exit("demo: the driver ended before it could be killed")
            if time.monotonic() > deadline:
                sys.exit(f"demo: the driver has not written a second batch after {_PATIENCE_S} s")
            time.sleep(0.002)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    if sys.stderr.isatty():
        sys.stderr.write("\n")  # nobody takes away the bar of who was killed
    _tell_command(f"kill -9 {driver.pid}")


@contextmanager
def _started(command: str, *, prints: bool = True) -> Iterator[subprocess.Popen[str]]:
    """It has this terminal, so that what it says and its bar are seen while it works. Nothing of it is left running."""
    _tell_command(command)
    stdout = None if prints else subprocess.DEVNULL
    with subprocess.Popen(shlex.split(command), stdout=stdout, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _version() -> int:
    """Of the newest commit; -1 without a table. By names alone: this is asked 500 times a second."""
    return max((int(name[:20]) for name in _names(_TABLE / "_delta_log") if name.endswith(".json")), default=-1)


def _unfinished() -> list[str]:
    """Parquet files of batches that are not committed. Commit n has the files of batch n."""
    written = [(name, re.match(r"blizzard-\w+-(\d{8})-.*\.parquet$", name)) for name in _names(_TABLE)]
    committed = _version()
    return [name for name, batch in written if batch and int(batch[1]) > committed]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _count() -> int:
    return int(DeltaTable(_TABLE).count())


def _command(command: str, *, prints: bool = True) -> None:
    with _started(command, prints=prints) as process:
        process.wait()
    if process.returncode:
        sys.exit(f"demo: {command} exited with {process.returncode}")


def _prove() -> int:
    ids = DeltaTable(_TABLE).to_pyarrow_table(columns=["id"])["id"]
    bad = DeltaTable(f"{_TABLE}_quarantine").count()
    facts = {
        "records generated": _RECORDS,
        "rows in the table": len(ids),
        "distinct ids": len(set(ids.to_pylist())),
        "lines in quarantine": bad,
    }
    for name, value in facts.items():
        sys.stdout.write(f"  {name:20} {value:>7,}\n")
    is_exact = set(ids.to_pylist()) == set(range(_RECORDS)) and len(ids) == _RECORDS and bad == 1
    sys.stdout.write("  Yes: none is missing, none is there twice.\n" if is_exact else "  NO: this is a bug.\n")
    return 0 if is_exact else 1


def _tell_command(command: str) -> None:
    sys.stdout.write(f"$ {command}\n")
    sys.stdout.flush()


def _tell(text: str) -> None:
    sys.stdout.write("\n" + textwrap.fill(" ".join(text.split()), 120) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("demo: stopped")
