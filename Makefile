# Everything a clean clone needs: python 3.11 or newer with venv, make, and a place to get packages from.
# Set-up is incremental: a stamp in .venv is older than the lock files exactly when .venv is stale.

PYTHON ?= python3
FACTOR ?= 10
ARGS   ?=

VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --no-input
RUNTIME := $(VENV)/.runtime-installed
DEV     := $(VENV)/.dev-installed
LOCKS   := requirements/build.txt requirements/runtime.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint unit soak bench docs site screenshots recording lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(RUNTIME) ## set up, then play a company's bad day, scene by scene, on a temporary store
	@$(BIN)/interlock demo $(ARGS)

test: lint unit ## set up, then lint, type-check and run every test (ARGS="-k name" narrows)
	@echo "== all checks passed"

lint: $(DEV) ## style, formatting and strict types
	@echo "== ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "== ruff format --check"
	@$(BIN)/ruff format --quiet --check .
	@echo "== basedpyright"
	@$(BIN)/basedpyright --warnings

unit: $(DEV)
	@echo "== pytest"
	@$(BIN)/python -m tools.suite $(ARGS)

soak: $(DEV) ## the same tests with FACTOR times the dose (default 10)
	@echo "== pytest, dose x $(FACTOR)"
	@INTERLOCK_SOAK=$(FACTOR) $(BIN)/python -m pytest -o faulthandler_timeout=0 $(ARGS)

bench: $(DEV) .venv-rivals ## side-by-side benchmarks, printed as ratios
	@$(BIN)/python -m bench $(ARGS)

# Other systems, for `make bench` to measure beside ours; they are no part of the product.
.venv-rivals: requirements/rivals.txt
	@$(PYTHON) -m venv --clear $@
	@$@/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r requirements/rivals.txt
	@touch $@

docs: $(DEV) ## write the generated pages again: references, states, settings, schemas, dashboards
	@$(BIN)/python -m tools.states
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.sdk_reference
	@$(BIN)/python -m tools.settings
	@$(BIN)/python -m tools.chart_schema
	@$(BIN)/python -m tools.schemas
	@$(BIN)/python -m tools.ops
	@$(BIN)/python -m tools.approve_path

site: $(DEV) ## build docs/ into site/, strictly and with every link checked (ARGS="--version 1.2.0")
	@$(BIN)/python -m tools.site $(ARGS)

screenshots: $(DEV) ## take the pictures of the documentation from the running demo
	@$(BIN)/python -m tools.screenshots

recording: $(DEV) ## record the terminal of the README from the real program
	@$(BIN)/python -m tools.recording

lock: $(DEV) ## resolve the lock files again, hashed and without addresses
	@BIN=$(BIN) tools/lock.sh $(ARGS)

clean: ## remove the virtual environment and every cache
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .schemathesis dist site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An existing environment is kept; only one without a working interpreter is made again.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("python 3.11 or newer is needed: make PYTHON=/path/to/python" if sys.version_info < (3, 11) else 0)'
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)

$(RUNTIME): $(LOCKS) pyproject.toml | $(BIN)/python
	@echo "== installing the locked runtime"
	@$(PIP) install --quiet --require-hashes --no-deps $(LOCKS:%=-r %)
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(LOCKS) requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "== installing the locked development environment"
	@$(PIP) install --quiet --require-hashes --no-deps $(LOCKS:%=-r %) -r requirements/dev.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $(RUNTIME) $@
