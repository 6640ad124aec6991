# A fresh machine with Python >= 3.10, Java 17 and make needs nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench lint types clean java

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with blizzard and its development tools

$(READY): pyproject.toml conf/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "blizzard needs Python 3.10 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c conf/constraints.txt -e '.[dev]'
	@touch $@

java:
	@if [ -n "$$JAVA_HOME" ]; then test -x "$$JAVA_HOME/bin/java"; else command -v java >/dev/null; fi \
		|| { echo "Java 17 was not found: install a JDK 17 or set JAVA_HOME." >&2; exit 1; }

demo: java setup ## Generate NDJSON.gz, ingest it into a Delta table, show that a second run finds nothing new
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh jobs/demo.sh

test: java setup ## Run all tests
	$(BIN)/python -m pytest

bench: java setup ## Benchmark against the peers on this machine (about an hour; see benchmarks/README.md)
	$(BIN)/pip install --quiet --disable-pip-version-check -c conf/constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks --scenarios --check

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

check: lint types test ## Lint, types and tests: what CI runs

clean: ## Remove the environment, caches and the demo's data
	rm -rf $(VENV) demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
