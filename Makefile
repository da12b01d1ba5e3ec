# Everything from a bare machine with Python 3.11 or newer: `make demo`, `make test`, `make check`.
# The environment lives in .venv and is renewed when pyproject.toml changes.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-browser chaos sabotage bench bench-quick bench-claims check format clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_ARGS ?=
TEST_ARGS ?=
# Most of the tests' time is spent waiting for processes, leases and servers.
TEST_WORKERS ?= $(shell $(BIN)/python -c 'import os; print(2 * (os.cpu_count() or 1))')
CHAOS_STORES ?= sqlite postgres redis
CHAOS_SECONDS ?= 600
CHAOS_SEEDS ?= 3000
CHAOS_ARGS ?=
BENCH_ARGS ?=
PICTURES ?= build/pictures
# A machine without a network must not wait for one.
APT := timeout 300 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20

# The first interpreter that is new enough and can make virtual environments; PYTHON=... overrules.
CANDIDATES := python3.11 python3.12 python3.13 python3.14 python3 python
SUITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach p,$(CANDIDATES),$(shell $(p) -c '$(SUITS)' 2>/dev/null && command -v $(p))))

help:
	@echo "make demo    watch Duly work, on a file of its own   (DEMO_ARGS='--seconds 15 --plain')"
	@echo "make test    run the tests in parallel, random order (TEST_ARGS='-k name')"
	@echo "make test-all   the same with every combination of stores"
	@echo "make test-browser   open the dashboard in a real Chromium; pictures in build/pictures"
	@echo "make chaos   thousands of simulated storms, then ten minutes of faults on each store  (CHAOS_SECONDS=60 CHAOS_STORES=redis CHAOS_ARGS='--seed 7')"
	@echo "make sabotage   break the engine in every known way and see the tests notice"
	@echo "make bench   Duly, its peers and the limits of the stores, three times, in build/bench (BENCH_ARGS='--only Duly --work drain')"
	@echo "make bench-quick   the best peer of each store, once, in under three minutes"
	@echo "make bench-claims   what a claim costs in a full store (BENCH_ARGS='--stores sqlite --scale 0.1')"
	@echo "make check   lint, format, types, layers"
	@echo "make format  rewrite the sources in the project's format"
	@echo "make clean   remove the environment and the caches"

setup: $(READY)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with the venv module was not found; say PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/duly demo $(DEMO_ARGS)

test: $(READY)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -m "not thorough" $(TEST_ARGS)

test-all: $(READY)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) $(TEST_ARGS)

# Without root a missing browser is for somebody else to install; the tests then say that they were skipped.
test-browser: $(READY)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && $(APT) update && $(APT) install -y --no-install-recommends chromium fonts-inter; } \
		|| { echo "Chromium is not installed and cannot be from here, so no browser test was run: apt-get install chromium" >&2; exit 0; }; \
	DULY_BROWSER=1 DULY_PICTURES=$(PICTURES) $(BIN)/python -m pytest -n 2 tests/browser $(TEST_ARGS)

chaos: $(READY)
	$(BIN)/python -m tests.simulation --seeds $(CHAOS_SEEDS)
	@code=0; for store in $(CHAOS_STORES); do \
		$(BIN)/python -m tests.chaos --store $$store --seconds $(CHAOS_SECONDS) $(CHAOS_ARGS) || code=1; \
	done; exit $$code

sabotage: $(READY)
	$(BIN)/python -m tests.sabotage.run

bench: $(READY)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-quick: $(READY)
	$(BIN)/python -m benchmarks --quick $(BENCH_ARGS)

bench-claims: $(READY)
	$(BIN)/python -m benchmarks.claim_latency $(BENCH_ARGS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage*
