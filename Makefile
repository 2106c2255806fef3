# Every target sets up what it needs, so each works as the first command in a clone.
# Needed beforehand: make, and Python 3.11 or newer with venv.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := $(or $(DPONE_VENV),.venv)
BENCH_VENV := .venv-bench
AIRFLOW_LOCKS := faultinject/airflow/locks
# Set-up itself looks for Python 3.11; to be read at all it needs 3.7.
PYTHON ?= $(firstword $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null && echo $$name && break; \
  done) python3)
BIN := $(VENV)/bin

# The folders with sources to type-check; one that is still empty is left out.
TYPED = $(shell find dpone models faultinject certification tests airflow_tests bench demo tools -name '*.py' \
  2>/dev/null | cut -d/ -f1 | sort -u)
# Two workers share the tests, a file at a time; empty for one.
WORKERS ?= -n 2 --dist loadfile --no-loadscope-reorder
# More arguments for pytest, as in `make test ARGS="-k journal -x"`.
ARGS ?=

.PHONY: help env demo test lint format kill bench certify airflow airflow-one lock clean

help: ## explain the targets
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile
	@echo "Each target first sets up what it needs. Settings: DPONE_VENV (the environment's"
	@echo "folder), DPONE_CACHE (downloads), DPONE_PYTHON (the interpreter), ARGS (for pytest)."

env: ## make the environment in .venv from the locked packages
	@$(PYTHON) tools/setup_env.py

demo: env ## crash a real load after its commit, run it again, see that the rows are there once
	@$(BIN)/python tools/fetch_flights.py
	@$(BIN)/python demo/flights.py

test: lint ## check the sources, then run all tests
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

lint: env ## style, format, types and the dependency rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(TYPED)
	$(BIN)/lint-imports --no-logo

format: env ## put all sources into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

kill: env ## kill real processes before and after every effect
	$(BIN)/python -m pytest tests/kill $(ARGS)

bench: ## measure, in an environment of its own
	@$(PYTHON) tools/setup_env.py --lock bench/requirements.lock --venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python tools/fetch_flights.py
	$(BENCH_VENV)/bin/python bench/run.py

certify: env ## run the whole verification programme and write the evidence bundle
	$(BIN)/python -m certification

airflow: env ## certify every Airflow version on every Python that is here
	$(BIN)/python -m certification.airflow_matrix $(ARGS)

airflow-one: env ## one Airflow version, really started: DPONE_AIRFLOW, DPONE_AIRFLOW_PYTHON
	$(BIN)/python -m pytest -c pyproject.toml --rootdir . airflow_tests/live.py $(ARGS)

lock: ## pin the newest allowed packages again (needs uv on the path)
	@command -v uv >/dev/null || { echo "make lock needs the program uv on the path."; exit 1; }
	@for folder in . bench; do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-header \
	    $$folder/requirements.in --output-file $$folder/requirements.lock || exit 1; \
	done
	@for listed in $(AIRFLOW_LOCKS)/airflow-*.in; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --no-header \
	    $$listed --output-file $${listed%.in}.lock || exit 1; \
	done

clean: ## remove environments, caches and built files; downloads in .cache stay
	rm -rf .venv $(BENCH_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find dpone models faultinject certification tests airflow_tests bench demo tools -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
