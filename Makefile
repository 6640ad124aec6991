# A fresh machine needs only Python >= 3.10, Java 17 or 21 and make. With Rust the native parser is built too.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One environment, two stamps: what runs blizzard, and what tests it.
READY  := $(VENV)/.ready
DEV    := $(VENV)/.ready-dev
# Makes an environment and installs into it, in sight.
INSTALL = $(PYTHON) jobs/environment.py
PINNED := -c conf/constraints.txt

# The native parser: setuptools-rust builds it into the source tree, where every environment finds it. A cargo that is
# too old, offline or without a linker counts as none.
NATIVE  := blizzard/native
SOURCES := $(NATIVE)/Cargo.toml $(shell find $(NATIVE)/src -name '*.rs') jobs/native_build.py

# The oldest supported Spark, and the tests that run on it: runs, starts, kills, both committers.
SPARK35       := .venv-spark35
SPARK35_TESTS := tests/spark/test_ingest.py tests/spark/test_submit.py tests/spark/test_delta_spark.py \
	tests/spark/test_column_names.py \
	tests/spark/test_versions.py::test_delta_for_another_spark \
	tests/spark/test_kill.py::test_a_driver_killed_at_a_named_point_loses_and_doubles_nothing

# What pip takes without constraints: the newest of everything that pyproject.toml allows, and the tests that run on it.
NEWEST       := .venv-newest
PACKAGE      := $(shell find blizzard -name target -prune -o -type f ! -name '*.pyc' ! -name '*.so' -print)
NEWEST_TESTS := tests/jobs/installed.py tests/spark/test_submit.py

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

# A real Airflow in an environment of its own, for the tests of blizzard.airflow.
AIRFLOW_VENV  := .venv-airflow
AIRFLOW_READY := $(AIRFLOW_VENV)/.ready
AIRFLOW_PROVIDERS := apache-spark amazon databricks

# Tests wait more than they work: three files run at once, the tests of one file in order.
AT_ONCE := -n 3 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup setup-s3 setup-stores setup-browser setup-postgres setup-systemd setup-shells \
	setup-airflow setup-servers demo docs quick test \
	test-spark35 test-newest check bench dist lint types native rust clean python java go npm

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV) ## Make .venv with blizzard and its development tools

$(READY): pyproject.toml conf/constraints.txt $(SOURCES) | python
	@$(INSTALL) $(VENV) $(PINNED) -e .
	@$(SAY_IF_NOT_NATIVE)
	@touch $@

$(DEV): pyproject.toml conf/constraints.txt $(SOURCES) | python
	@$(INSTALL) $(VENV) $(PINNED) -e '.[dev]'
	@$(SAY_IF_NOT_NATIVE)
	@touch $(READY) $@

SAY_IF_NOT_NATIVE = ls $(NATIVE)/*.so >/dev/null 2>&1 \
	|| echo "The native parser was not built (make native says why); blizzard works without it, with a slower one."

# For every Python, however old.
python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and "blizzard needs Python 3.10 or newer, and \
	$(PYTHON) is Python %d.%d: make PYTHON=python3.12 ..." % v[:2])'

native: setup ## Build the native parser, and say what is missing if it cannot be built (needs Rust 1.88 or newer)
	@BLIZZARD_BUILD_NATIVE=required $(INSTALL) $(VENV) --no-deps -e .

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

# $(call debian,is it there already,packages,what make test skips without them). In CI nothing may be skipped.
define debian
@{ $(1); } >/dev/null 2>&1 \
	|| { apt-get update -qq && apt-get install -qq -y --no-install-recommends $(2); } >/dev/null \
	|| { echo "$(2) could not be installed: make test skips $(3)." >&2; test "$$CI" != true; }
endef

setup-browser: ## Install the Chromium that the report is tested in (needs apt-get and root)
	$(call debian,command -v chromium && command -v chromedriver,chromium chromium-driver,the tests in a browser)

# Debian does not put the server on PATH.
setup-postgres: ## Install the PostgreSQL that mirrors of positions are tested with (needs apt-get and root)
	$(call debian,ls /usr/lib/postgresql/*/bin/initdb || command -v initdb,postgresql,the tests with PostgreSQL)

setup-systemd: ## Install systemd-analyze, which checks the units in jobs/systemd (needs apt-get and root)
	$(call debian,command -v systemd-analyze,systemd,the check of the units)

setup-shells: ## Install the shells that completion is tested in (needs apt-get and root)
	$(call debian,command -v fish && command -v zsh,fish zsh,completion in these shells)

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
	@rm -rf $(AIRFLOW_VENV)
	@$(INSTALL) $(AIRFLOW_VENV) -c conf/constraints-airflow.txt apache-airflow $(AIRFLOW_PROVIDERS:%=apache-airflow-providers-%)
	@$(INSTALL) $(AIRFLOW_VENV) --no-deps -e .
	@touch $@

go:
	@test -n "$(GO)" || { echo "Go 1.25 or newer was not found: install it, or make test skips what needs servers." >&2; exit 1; }

# "17.0.2" is 17, "1.8.0_392" is 8. Java that is too new for Spark is left to blizzard, which knows the Spark.
java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	command -v "$$java" >/dev/null || { echo "Java was not found: install a JDK 17 or 21, or set JAVA_HOME." >&2; exit 1; }; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	test "$${version:-17}" -ge 17 \
		|| { echo "$$java is Java $$version, and Spark 4 needs 17 or 21: install a JDK 17 or 21, or set JAVA_HOME." >&2; exit 1; }

demo: java $(READY) ## Ingest generated data, kill -9 in the middle, resume, and count: each record is there exactly once
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python jobs/demo.py

docs: java setup ## Write docs/reference.md, and what the commands of the README and of docs/quickstart.md print
	$(BIN)/python -m jobs.docs

# The markers say what a test needs: here it may need nothing. Java is hidden, so that a test that needs it fails.
QUICK := not (spark or process or browser or airflow or cluster or s3 or stores or postgres or slow)

quick: setup ## Run the tests that need no Java, no server and no browser, in about five minutes
	JAVA_HOME=/no-java $(BIN)/python -m pytest $(AT_ONCE) -m '$(QUICK)'

# Tests are skipped if the machine lacks what they need: see the README.
SERVERS := $(if $(GO),setup-s3 $(GCS_READY)) $(if $(NPM),$(AZURE_READY)) $(if $(APT),setup-browser setup-postgres setup-systemd setup-shells)

setup-servers: $(SERVERS) ## All servers and the browser that this machine can have

test: java setup setup-airflow $(SERVERS) $(CLUSTER_ENV) ## Run all tests (object storage: where Go and npm are; browser, PostgreSQL, systemd, shells: where apt-get is, or they are)
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
	@mkdir -p $(SPARK35)
	@names=$$(sed -n 's/==.*//p' conf/constraints-spark35.txt | paste -sd '|' -); \
		grep -vE "^($$names)==" conf/constraints.txt | cat - conf/constraints-spark35.txt > $(SPARK35)/constraints.txt
	@$(INSTALL) $(SPARK35) -c $(SPARK35)/constraints.txt -e '.[dev]' \
		setuptools # pyspark 3.5 imports distutils, which Python 3.12 has only through it
	@touch $@

test-newest: java $(NEWEST)/.ready ## Install blizzard as a user does, without pins, and run the core path's tests on it
	$(NEWEST)/bin/python -m pytest $(AT_ONCE) $(NEWEST_TESTS)

# A plain `pip install .`: no pins, no development tools, nothing from this tree. Then what the tests themselves need.
# It is a copy, so every file of the package makes it old.
$(NEWEST)/.ready: pyproject.toml conf/constraints.txt $(SOURCES) $(PACKAGE) | setup
	@rm -rf $(NEWEST) build
	@$(INSTALL) $(NEWEST) .
	@$(INSTALL) $(NEWEST) pytest pytest-xdist hypothesis
	@touch $@

bench: java setup ## Benchmark against the peers on this machine (about an hour; see benchmarks/README.md)
	@$(INSTALL) $(VENV) $(PINNED) -e '.[bench]'
	$(BIN)/python -m benchmarks --scenarios --check

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

check: lint types test ## Lint, types and tests: what CI runs

clean: ## Remove the environment, caches and the demo's data (.tools stays: it takes minutes to build)
	rm -rf $(NATIVE)/target $(NATIVE)/*.so
	rm -rf $(VENV) $(AIRFLOW_VENV) $(SPARK35) $(NEWEST) demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
