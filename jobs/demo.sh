#!/bin/sh
# A demo on generated data: ingest, look, and ingest again. Everything it makes is below demo/.
set -eu
rm -rf demo
say() { printf '\n$ %s\n' "$*"; }

python -m blizzard.testing.samples demo/events --files 8 --records 20000
DDL="$(python -m blizzard.testing.samples --print-ddl)"

# Keeps the classes of Spark's JVM: once on a machine, and every local run after it starts in about half the time.
say blizzard warm-up "   # once: keeps what Spark loads when it starts; blizzard warm-up --remove deletes it"
blizzard warm-up || echo "It goes on without."

say blizzard run --source demo/events --table demo/table --schema "'$DDL'"
blizzard run --source demo/events --table demo/table --schema "$DDL"

say blizzard status --table demo/table --source demo/events
blizzard status --table demo/table --source demo/events

say blizzard run --source demo/events --table demo/table "   # again: nothing is new, nothing is ingested"
blizzard run --source demo/events --table demo/table
