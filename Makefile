# A fresh machine needs only Python >= 3.10, Java 17 and make. With Rust the native parser is built too.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# The native parser: setuptools-rust builds it into the source tree, where every environment finds it. A cargo that is
# too old, offline or without a linker counts as none.
NATIVE  := blizzard/native
SOURCES := $(NATIVE)/Cargo.toml $(shell find $(NATIVE)/src -name '*.rs') jobs/native_build.py
INSTALL := pip install --quiet --disable-pip-version-check

# The oldest supported Spark, and the tests that run on it: runs, starts, kills, both committers.
SPARK35       := .venv-spark35
SPARK35_TESTS := tests/spark/test_ingest.py tests/spark/test_submit.py tests/spark/test_delta_spark.py \
	tests/spark/test_column_names.py \
	tests/spark/test_versions.py::test_delta_for_another_spark \
	tests/spark/test_kill.py::test_a_driver_killed_at_a_named_point_loses_and_doubles_nothing

# Servers for the tests against object storage, built by Go. The stamps have the version in their name: a new version
# is built again.
TOOLS     := .tools
VERSITYGW := v1.8.0
TOXIPROXY := v2.5.0
S3_READY  := $(TOOLS)/versitygw-$(VERSITYGW) $(TOOLS)/toxiproxy-$(TOXIPROXY)
# Emulators of Google Cloud Storage and of Azure Blob Storage. azurite's dependencies are as old as azurite itself.
FAKE_GCS  := v1.56.1
AZURITE   := 3.35.0
GCS_READY := $(TOOLS)/fake-gcs-server-$(FAKE_GCS)
AZURE_READY := $(TOOLS)/azurite-$(AZURITE)
NPM       := $(shell command -v npm 2>/dev/null)
GO        := $(shell command -v go 2>/dev/null)
# The environment for the tests on a cluster has its own interpreter; it can only be made on Linux.
CLUSTER_ENV := $(if $(filter Linux,$(shell uname -s)),dist/.environment)
# Without cgo no C compiler is needed; without symbols the server is half as large (45 MB).
GO_BUILD   = GOBIN='$(CURDIR)/$(TOOLS)/bin' GOFLAGS=-buildvcs=false CGO_ENABLED=0 go install -ldflags='-s -w'

# Debian's browser, for the tests of the report. Without root on Debian it has to be installed already.
APT := $(shell test "$$(id -u)" = 0 && command -v apt-get 2>/dev/null)

# A real Airflow in an environment of its own, for the tests of blizzard.airflow. uv installs it in seconds, pip in minutes.
AIRFLOW_VENV  := .venv-airflow
AIRFLOW_READY := $(AIRFLOW_VENV)/.ready
AIRFLOW_UV    := $(AIRFLOW_VENV)/bin/uv pip install --quiet --python $(AIRFLOW_VENV)/bin/python
AIRFLOW_PROVIDERS := apache-spark amazon databricks

# Tests wait more than they work: two files run at once, the tests of one file in order.
AT_ONCE := -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup setup-s3 setup-stores setup-browser setup-airflow demo quick test test-spark35 check bench dist \
	lint types native rust clean java go npm

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with blizzard and its development tools

$(READY): pyproject.toml conf/constraints.txt $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "blizzard needs Python 3.10 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip uninstall --quiet --yes blizzard 2>/dev/null # as blizzard-delta was called once: it has the same files
	$(BIN)/$(INSTALL) -c conf/constraints.txt -e '.[dev]'
	@ls $(NATIVE)/*.so >/dev/null 2>&1 \
		|| echo "The native parser was not built (make native says why); blizzard works without it, with a slower one."
	@touch $@

native: setup ## Build the native parser, and say what is missing if it cannot be built (needs Rust 1.88 or newer)
	BLIZZARD_BUILD_NATIVE=required $(BIN)/$(INSTALL) --no-deps -e .

# Its tests are an executable, so they link libpython: that of .venv, not of whatever python3 is on PATH.
rust: setup ## Lint and test the crate of the native parser (needs Rust 1.88 or newer)
	@command -v cargo >/dev/null || { echo "cargo was not found: install Rust 1.88 or newer." >&2; exit 1; }
	cd $(NATIVE) && { ! command -v rustfmt >/dev/null || cargo fmt --check; }
	cd $(NATIVE) && PYO3_PYTHON='$(CURDIR)/$(BIN)/python' cargo clippy --quiet --all-targets -- -D warnings
	cd $(NATIVE) && PYO3_PYTHON='$(CURDIR)/$(BIN)/python' cargo test --quiet

setup-s3: $(S3_READY) ## Build the S3 server and the faulty network that the S3 tests run against (needs Go)

$(TOOLS)/versitygw-$(VERSITYGW): | go
	$(GO_BUILD) github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)
	@touch $@

$(TOOLS)/toxiproxy-$(TOXIPROXY): | go
	$(GO_BUILD) github.com/Shopify/toxiproxy/v2/cmd/server@$(TOXIPROXY)
	@mv $(TOOLS)/bin/server $(TOOLS)/bin/toxiproxy-server
	@touch $@

setup-browser: ## Install the Chromium that the report is tested in (needs apt-get and root)
	@{ command -v chromium && command -v chromedriver; } >/dev/null \
		|| { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium chromium-driver; } >/dev/null \
		|| { echo "Chromium could not be installed: make test skips the tests in a browser." >&2; test "$$CI" != true; }

setup-stores: $(GCS_READY) $(AZURE_READY) ## Install the emulators that the tests of GCS and Azure run against (needs Go and npm)

$(GCS_READY): | go
	$(GO_BUILD) github.com/fsouza/fake-gcs-server@$(FAKE_GCS)
	@touch $@

$(AZURE_READY): | npm
	npm install --prefix $(TOOLS)/azurite --before=2025-11-01 --omit=optional --ignore-scripts --no-audit --no-fund \
		--loglevel=error azurite@$(AZURITE)
	@touch $@

npm:
	@test -n "$(NPM)" || { echo "npm was not found: install Node.js, or make test skips the tests of Azure." >&2; exit 1; }

setup-airflow: $(AIRFLOW_READY) ## Install the Airflow that the Airflow tests run against (600 MB)

# blizzard is installed without its dependencies, as on a real worker: its pyspark conflicts with the provider's.
$(AIRFLOW_READY): conf/constraints-airflow.txt pyproject.toml | setup
	$(PYTHON) -m venv --clear $(AIRFLOW_VENV)
	$(AIRFLOW_VENV)/bin/$(INSTALL) -c conf/constraints-airflow.txt uv
	$(AIRFLOW_UV) -c conf/constraints-airflow.txt apache-airflow $(AIRFLOW_PROVIDERS:%=apache-airflow-providers-%)
	$(AIRFLOW_UV) --no-deps -e .
	@touch $@

go:
	@test -n "$(GO)" || { echo "Go 1.25 or newer was not found: install it, or make test skips what needs servers." >&2; exit 1; }

java:
	@if [ -n "$$JAVA_HOME" ]; then test -x "$$JAVA_HOME/bin/java"; else command -v java >/dev/null; fi \
		|| { echo "Java 17 was not found: install a JDK 17 or set JAVA_HOME." >&2; exit 1; }

demo: java setup ## Generate NDJSON.gz, ingest it into a Delta table, show that a second run finds nothing new
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh jobs/demo.sh

# The markers say what a test needs: here it may need nothing. Java is hidden, so that a test that needs it fails.
QUICK := not (spark or process or browser or airflow or cluster or s3 or stores or slow)

quick: setup ## Run the tests that need no Java, no server and no browser, in under three minutes
	JAVA_HOME=/no-java $(BIN)/python -m pytest $(AT_ONCE) -m '$(QUICK)'

# Tests are skipped if the machine lacks what they need: see the README.
SERVERS := setup-airflow $(if $(GO),setup-s3 $(GCS_READY)) $(if $(NPM),$(AZURE_READY)) $(if $(APT),setup-browser) $(CLUSTER_ENV)

test: java setup $(SERVERS) ## Run all tests (object storage: where Go and npm are; browser: where apt-get or Chromium is)
	$(BIN)/python -m pytest $(AT_ONCE)

dist: setup ## Make in dist/ what a cluster needs: wheel, zip for --py-files, environment for --archives
	$(BIN)/python jobs/dist.py
	@touch dist/.environment

# For the tests on a cluster. They send blizzard itself as a fresh zip, so this is built again only for new packages, and
# for a new native parser, which a zip cannot carry.
dist/.environment: jobs/dist.py jobs/portable.py pyproject.toml conf/constraints.txt $(SOURCES) | setup
	$(BIN)/python jobs/dist.py
	@touch $@

test-spark35: java $(SPARK35)/.ready ## Run the core path's tests on Spark 3.5 with Delta 3.3, in an environment of their own
	$(SPARK35)/bin/python -m pytest $(AT_ONCE) $(SPARK35_TESTS)

$(SPARK35)/.ready: pyproject.toml conf/constraints.txt conf/constraints-spark35.txt | setup
	$(PYTHON) -m venv $(SPARK35)
	@$(SPARK35)/bin/pip uninstall --quiet --yes blizzard 2>/dev/null
	@names=$$(sed -n 's/==.*//p' conf/constraints-spark35.txt | paste -sd '|' -); \
		grep -vE "^($$names)==" conf/constraints.txt | cat - conf/constraints-spark35.txt > $(SPARK35)/constraints.txt
	$(SPARK35)/bin/$(INSTALL) -c $(SPARK35)/constraints.txt -e '.[dev]' \
		setuptools # pyspark 3.5 imports distutils, which Python 3.12 has only through it
	@touch $@

bench: java setup ## Benchmark against the peers on this machine (about an hour; see benchmarks/README.md)
	$(BIN)/$(INSTALL) -c conf/constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks --scenarios --check

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

check: lint types test ## Lint, types and tests: what CI runs

clean: ## Remove the environment, caches and the demo's data (.tools stays: it takes minutes to build)
	rm -rf $(NATIVE)/target $(NATIVE)/*.so
	rm -rf $(VENV) $(AIRFLOW_VENV) $(SPARK35) demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
