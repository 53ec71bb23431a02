# The everyday commands. `make` alone lists them. Needs Python 3.11 or newer with pip, and nothing else.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
CATALOG ?=
export PORT CATALOG

IN := $(VENV)/bin/python
PIP := $(IN) -m pip install --disable-pip-version-check --no-input --root-user-action ignore --progress-bar off --require-hashes
IN_PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
COMPILE := $(IN) -m uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes

.PHONY: help run test mutants faults coverage lint schema api-changes bench bench-peers citus agents lock wheel clean
.DEFAULT_GOAL := help
# Processes that start again and again, in tests and behind `make run`, would compile all modules each time.
unexport PYTHONDONTWRITEBYTECODE
.DELETE_ON_ERROR:

help:  ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/installed  ## Serve the gateway: PORT=8000, CATALOG=FILE.toml adds models of yours
	@exec $(IN) -m gateway_project.local.supervisor

test: $(VENV)/installed-dev  ## Run the tests: ARGS=tests/billing some, ARGS=--changed those of a change, ARGS=--all the system tests, too
	@echo "Starting PostgreSQL, making a test database for each core and collecting the tests. The first results follow in a minute or two ..."
	@$(IN) -m pytest $(IN_PARALLEL) $(ARGS)

mutants: $(VENV)/installed-dev  ## Run every mutant with the tests that must kill it: ARGS=--changed if a change touches any
	@$(IN) -m pytest $(IN_PARALLEL) --mutants=all $(ARGS)

faults: $(VENV)/installed-dev  ## Bring every fault about, write docs/reliability.md, run mutants: FAULT_SECONDS=30 for each load
	@CRASH_ROUNDS=$${CRASH_ROUNDS:-3} $(IN) -m pytest -p tests.fault_plugin -m "fault or long" --all --mutants=none $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory mutants)

coverage: $(VENV)/installed-dev  ## Run the tests and measure which statements they execute: ARGS=--all the system tests, too
	@$(IN) -m coverage erase
	@if $(IN) -c 'import sys; sys.exit(sys.version_info < (3, 12))'; \
	  then export COVERAGE_CORE=sysmon COVERAGE_CONCURRENCY=thread; fi; \
	  $(IN) -m coverage run -m pytest $(IN_PARALLEL) $(if $(ARGS),,--file-share-max=3) $(ARGS)
	@$(IN) -m coverage combine --quiet
	@$(IN) -m coverage report

lint: $(VENV)/installed-dev  ## Check style, types, migrations and which module imports which
	$(IN) -m ruff check .
	$(IN) -m ruff format --check .
	$(IN) -m mypy .
	$(IN) manage.py makemigrations --check --dry-run
	$(VENV)/bin/lint-imports --no-logo --no-cache

schema: $(VENV)/installed  ## Write gateway_project/db/schema.sql, with each change of the migrations
	@$(IN) -m gateway_project.local.schema_dump

api-changes: $(VENV)/installed-dev  ## Add what changed in the OpenAPI description to the changelog of the API
	@$(IN) -m tests.api_changes

bench: $(VENV)/installed  ## Measure completions: ARGS=2 for seconds a figure, against=REV compares, neighbours attacks
ifeq ($(firstword $(ARGS)),neighbours)
	@$(IN) -m bench.neighbours $(wordlist 2,4,$(ARGS))
else ifneq ($(filter against=%,$(ARGS)),)
	@$(IN) -m bench.against $(patsubst against=%,%,$(ARGS))
else
	@$(IN) -m bench.run $(ARGS)
endif

bench-peers: $(VENV)/installed  ## Compare completions with other gateways and nginx: installs them for it; needs npm and nginx
	@$(IN) -m bench.peers $(ARGS)

citus: $(VENV)/installed  ## Run the gateway on Citus, and write docs/scaling.md: CITUS=DIRECTORY of the programs of a PostgreSQL that has it
	@$(IN) -m bench.citus $(or $(CITUS),$(error Set CITUS to the directory of the programs of a PostgreSQL that has Citus)) $(ARGS)

agents: $(VENV)/installed  ## Let coding agents of today work through a gateway, and write docs/api/agents.md: needs npm
	@$(IN) -m bench.agents

lock: $(VENV)/installed-dev  ## Pin all requirements with hashes: ARGS=--upgrade takes newer versions
	$(COMPILE) $(ARGS) --extra local -o requirements.txt
	$(COMPILE) $(ARGS) --extra local --extra tracing --extra google --extra aws --extra azure --extra dev -c requirements.txt -o requirements-dev.txt
	$(COMPILE) $(ARGS) --no-strip-extras -c requirements.txt -o deploy/requirements.txt

wheel: $(VENV)/installed  ## Build the wheel into dist/, with the hash-locked list that installs it
	@rm -rf build dist *.egg-info
	@$(IN) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-index --wheel-dir dist .
	@rm -rf build *.egg-info
	@cp deploy/requirements.txt dist/
	@cd dist && for wheel in *.whl; do \
	  printf './%s %s\n' "$$wheel" "$$(../$(IN) -m pip --disable-pip-version-check hash "$$wheel" | tail -n 1)" >> requirements.txt; echo "dist/$$wheel"; done

clean:  ## Remove the virtual environment and caches; the data in var/ stays
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The virtual environment: made again when its Python has been removed -----------------------------------------

# Debian's Python makes a virtual environment without pip unless python3-venv is installed; then its own pip installs one.
define MAKE_VENV
@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON): the gateway needs Python 3.11 or newer. Set make PYTHON=..."; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "The gateway needs Python 3.11 or newer; $(PYTHON) is %d.%d. Set make PYTHON=..." % sys.version_info[:2])'
@$(IN) -m pip --version >/dev/null 2>&1 || { echo "Making $(VENV) ..."; $(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1; } \
  || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(IN) install --quiet pip; }
endef

NO_NETWORK := 'NewConnectionError|ConnectTimeout|name resolution|Network is unreachable|Connection refused|ProxyError'
OFFLINE := This machine reaches no index of Python packages: connect it once, or set PIP_INDEX_URL to an index that it reaches. $(VENV)/install.log has what pip said.

# uv takes seconds where pip takes a minute or two. It does not read the configuration of pip, such as an index of your own: where it
# fails, pip installs. What they say otherwise appears only when both fail.
define INSTALL
@started=$$(date +%s); printf 'Installing %s packages of %s ...' $$(grep -c '==' $<) $<; \
  awk '/^[a-z]/ {is_uv = /^uv==/} is_uv' requirements-dev.txt > $(VENV)/uv.txt; \
  { $(PIP) --quiet -r $(VENV)/uv.txt && $(IN) -m uv pip install --python $(IN) --quiet --require-hashes -r $<; } > $(VENV)/install.log 2>&1 \
    || { printf ' with pip, which takes a minute or two ...'; $(PIP) -r $< > $(VENV)/install.log 2>&1; } \
    || { echo; grep -qE $(NO_NETWORK) $(VENV)/install.log && echo "$(OFFLINE)" || cat $(VENV)/install.log; exit 1; }; \
  printf ' done in %s s.\n' $$(($$(date +%s) - started))
endef

$(VENV)/installed: requirements.txt
	$(MAKE_VENV)
	$(INSTALL)
	@touch $@

$(VENV)/installed-dev: requirements-dev.txt
	$(MAKE_VENV)
	$(INSTALL)
	@touch $(VENV)/installed $@
