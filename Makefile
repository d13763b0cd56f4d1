# What contributors and CI call. Needs Python 3.11 or newer as python3 (or PYTHON=...); everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
AXE := tests/web/axe
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile pyproject.toml --group build --universal \
	--python-version 3.11 --generate-hashes --no-annotate --quiet --system-certs
UPGRADE :=

.PHONY: help setup demo quick test golden test-slow fuzz test-tables test-flower test-browser test-packaging browser lint lock audit-deps bench \
	audit-peers docs schemas results clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Only wheels, and only files whose hashes are in the lock: a source would fetch its build tools without any hash.
$(VENV)/.ready: pyproject.toml requirements/core.lock
	$(PYTHON) -m venv $(VENV)
	$(PIP) --only-binary :all: --require-hashes -r requirements/core.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements/dev.lock
	$(PIP) --only-binary :all: --require-hashes -r requirements/dev.lock
	@touch $@

setup: $(VENV)/.ready  ## make .venv and install gradveil into it

demo: setup  ## what gradients leak, what protection costs and what it guarantees, on scikit-learn's digits
	$(BIN)/gradveil run

lint: $(VENV)/.ready-dev  ## ruff and mypy --strict
	$(BIN)/ruff format --check src tests benchmarks tools examples
	$(BIN)/ruff check src tests benchmarks tools examples
	$(BIN)/mypy

quick: lint  ## lint, then tests that run every module once: under a minute when programs are compiled
	$(BIN)/python -m pytest -n 2 --dist worksteal --every-module @tests/quick/selection.txt

test: lint  ## lint, then all tests that are in no suite of their own below
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not fuzz and not tables and not flower and not browser and not packaging"

test-slow: $(VENV)/.ready-dev  ## tests of more than a few seconds each: processes killed, whole demonstrations, damaged folders
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow and not packaging"

golden: $(VENV)/.ready-dev  ## seeded runs of every method, three datasets, both engines: the bits that were recorded
	$(BIN)/python tests/golden/record_runs.py check

fuzz: $(VENV)/.ready-dev  ## a thousand generated inputs: no traceback, no exit code but 0, 1 and 2, none without an end
	$(BIN)/python -m pytest -m fuzz

test-tables: $(VENV)/.ready-dev  ## every table of the paper at smoke scale
	$(BIN)/python -m pytest -m tables --timeout 1800

test-flower: $(VENV)/.ready-dev  ## the same plan over real SuperLinks and SuperNodes of this machine
	$(BIN)/python -m pytest -n 2 -m flower

$(AXE)/node_modules/.ready: $(AXE)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: it brings axe-core, which checks that pages are accessible" >&2; exit 1; }
	cd $(AXE) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

test-browser: $(VENV)/.ready-dev $(AXE)/node_modules/.ready  ## the pages in a real browser; needs chromium, chromedriver and npm
	@command -v chromedriver >/dev/null || { echo "chromedriver is missing: install chromium and chromium-driver (as root: make browser)" >&2; exit 1; }
	$(BIN)/python -m pytest -m browser

browser:  ## install Debian's chromium, its driver and npm where there is none, as root
	apt-get update -qq && apt-get install -y -qq chromium chromium-driver $$(command -v npm >/dev/null || echo npm)

test-packaging: $(VENV)/.ready-dev  ## the wheel, built and installed without the locks in an environment of its own
	$(BIN)/python -m pytest -m packaging

lock: $(VENV)/.ready-dev  ## make requirements/*.lock from pyproject.toml; pins that still fit stay, unless UPGRADE=--upgrade
	$(COMPILE) --extra dev $(UPGRADE) -o requirements/dev.lock
	$(COMPILE) --extra flower -c requirements/dev.lock -o requirements/flower.lock
	$(COMPILE) -c requirements/dev.lock -o requirements/core.lock
	$(COMPILE) --extra docs -c requirements/dev.lock -o requirements/docs.lock

audit-deps: $(VENV)/.ready-dev  ## look up known vulnerabilities of the locked versions; fails if one cannot be looked up
	$(BIN)/uvx --system-certs pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r requirements/dev.lock

$(VENV)/.ready-docs: $(VENV)/.ready requirements/docs.lock
	$(PIP) --only-binary :all: --require-hashes -r requirements/docs.lock
	@touch $@

docs: $(VENV)/.ready-docs  ## build/docs/html: the documentation site; runs its notebooks, warnings and broken links are errors
	$(BIN)/python -m sphinx -b html -q -W --keep-going docs build/docs/html
	$(BIN)/python -m tools.site.links build/docs/html
	@echo "open build/docs/html/index.html"

schemas: setup  ## docs/schemas: JSON Schemas of what gradveil prints and stores
	$(BIN)/python docs/schemas/write.py

results: setup  ## docs/results.md, docs/sound.md and docs/sound.svg, from the committed records
	$(BIN)/gradveil table sound --docs docs
	$(BIN)/gradveil table all --docs docs

$(PEERS)/.ready: benchmarks/peers-requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers-requirements.txt
	@touch $@

bench: setup $(PEERS)/.ready  ## speed of local steps and of attacks, beside Opacus, PyTorch and the matrix products alone
	$(BIN)/gradveil bench --peers

audit-peers: $(PEERS)/.ready  ## audit jax_privacy, Opacus and Flower through examples/: sound parts consistent, public bugs refuted
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[flower]" pytest pytest-timeout
	$(PEERS)/bin/python -m pytest -p no:cacheprovider tests/auditing/test_adapters.py

clean:  ## remove what the targets above made
	rm -rf $(VENV) $(PEERS) $(AXE)/node_modules build docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
