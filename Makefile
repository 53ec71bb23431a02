# The everyday commands. `make` alone lists them. Needs Python 3.11 or newer with pip, and nothing else.

PYTHON ?= python3
PORT ?= 8000
CATALOG ?=
export PORT CATALOG

IN := .venv/bin/python
PIP := $(IN) -m pip install --disable-pip-version-check --no-input --require-hashes
COMPILE := $(IN) -m uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes

.PHONY: help run test lint bench lock clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/installed  ## Serve the gateway: PORT=8000, CATALOG=FILE.toml adds models of yours
	@exec $(IN) -m gateway_project.local.supervisor

test: .venv/installed-dev  ## Run all tests: ARGS=tests/billing runs some
	@$(IN) -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: .venv/installed-dev  ## Check style, types, migrations and which module imports which
	$(IN) -m ruff check .
	$(IN) -m ruff format --check .
	$(IN) -m mypy .
	$(IN) manage.py makemigrations --check --dry-run
	.venv/bin/lint-imports --no-logo --no-cache

bench: .venv/installed  ## Measure completions and rankings, as ratios to bare replies: ARGS=2 for seconds a figure
	@$(IN) -m bench.run $(ARGS)
	@$(IN) -m bench.rankings $(ARGS)

lock: .venv/installed-dev  ## Pin the requirements anew, with hashes: ARGS=--upgrade takes newer versions
	$(COMPILE) $(ARGS) -o requirements.txt
	$(COMPILE) $(ARGS) --extra dev -c requirements.txt -o requirements-dev.txt

clean:  ## Remove the virtual environment and caches; the data in var/ stays
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The virtual environment, made anew when its Python is gone ---------------------------------------------------

# Debian's Python makes a virtual environment without pip unless python3-venv is there; then its own pip puts one in.
define VENV
@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON): the gateway needs Python 3.11 or newer. Say make PYTHON=..."; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "The gateway needs Python 3.11 or newer; $(PYTHON) is %d.%d. Say make PYTHON=..." % sys.version_info[:2])'
@$(IN) -m pip --version >/dev/null 2>&1 || { echo "Making .venv ..."; $(PYTHON) -m venv --clear .venv >/dev/null 2>&1; } \
  || { $(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python $(IN) install --quiet pip; }
endef

.venv/installed: requirements.txt
	$(VENV)
	@echo "Installing requirements.txt ..."
	@$(PIP) -r requirements.txt
	@touch $@

.venv/installed-dev: requirements-dev.txt
	$(VENV)
	@echo "Installing requirements-dev.txt ..."
	@$(PIP) -r requirements-dev.txt
	@touch .venv/installed $@
