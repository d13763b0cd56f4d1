# What contributors and CI call. Needs Python 3.11 or newer as python3 (or PYTHON=...); everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers

.PHONY: help setup demo test fuzz test-tables test-flower test-browser lint bench results clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

setup: $(VENV)/.ready  ## make .venv and install gradveil into it

demo: setup  ## what gradients leak, what protection costs and what it guarantees, on scikit-learn's digits
	$(BIN)/gradveil run

lint: $(VENV)/.ready-dev  ## ruff and mypy --strict
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

test: lint  ## lint, then all tests but those of whole tables, Flower's processes and browsers
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not tables and not flower and not browser"

fuzz: $(VENV)/.ready-dev  ## a thousand generated inputs: no traceback, no exit code but 0, 1 and 2, none without an end
	GRADVEIL_FUZZ=1000 $(BIN)/python -m pytest tests/fuzz

test-tables: $(VENV)/.ready-dev  ## every table of the paper at smoke scale
	$(BIN)/python -m pytest -m tables

test-flower: $(VENV)/.ready-dev  ## the same plan over real SuperLinks and SuperNodes of this machine
	$(BIN)/python -m pytest -n 2 -m flower

test-browser: $(VENV)/.ready-dev  ## the pages in a real browser; installs Debian's chromium if it is not there
	@command -v chromedriver >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver; }
	$(BIN)/python -m pytest -m browser

results: setup  ## docs/results.md: every table at desk scale (an hour on two cores)
	$(BIN)/gradveil table all --scale desk
	cp runs/tables/desk/results.md docs/results.md

$(PEERS)/.ready: benchmarks/peers-requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers-requirements.txt
	@touch $@

bench: setup $(PEERS)/.ready  ## speed of one local step, beside Opacus and the matrix products alone
	$(BIN)/gradveil bench --peers

clean:  ## remove what the targets above made
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
