# make run     the lab on http://localhost:8501
# make test    every test, the browser's too; screenshots in ci-output/
# make lint    style and types
# make bench   the figures of the README's speed table
# make pictures  the README's screenshots, into docs/
# make audit   every package with version and licence, and known weaknesses where they can be looked up
#
# The first call builds .venv; later calls only look at the stamp of the requirements.

SHELL := /bin/bash
PYTHON ?= python3
PORT ?= 8501
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
# What starts processes of its own: browsers and clusters do not start under a worker of pytest, or fight it.
ALONE := tests/browser tests/core/test_sweep.py tests/models/test_sweep.py
APT := apt-get install -y --no-install-recommends

.PHONY: run test lint bench pictures audit clean

run: $(VENV)/run.stamp
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: $(VENV)/test.stamp lint
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(addprefix --ignore=,$(ALONE))
	$(BIN)/pytest $(ALONE)

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/test.stamp
	for b in benchmarks/[a-z]*.py; do grep -q __main__ $$b && $(BIN)/python -m benchmarks.$$(basename $$b .py) || true; done

pictures: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks.pictures docs

audit: $(VENV)/run.stamp
	$(BIN)/python -m deploy.audit

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || (rm -rf $(VENV) && apt-get update -q && $(APT) python3-venv && $(PYTHON) -m venv $(VENV))

$(VENV)/run.stamp: requirements.txt requirements-text.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -r requirements.txt
	$(BIN)/python -m pip install -q --no-deps -r requirements-text.txt
	touch $@

$(VENV)/test.stamp: requirements.txt requirements-text.txt requirements-dev.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -r requirements-dev.txt
	$(BIN)/python -m pip install -q --no-deps -r requirements-text.txt
	command -v chromium >/dev/null || (apt-get update -q && $(APT) chromium)
	touch $(VENV)/run.stamp $@

clean:
	rm -rf $(VENV) ci-output
