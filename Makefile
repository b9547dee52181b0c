# The commands a person needs; `make help` lists them. `make setup` and `make run` need Python 3.11,
# pip, venv and make only.
PYTHON ?= python3
PORT ?= 8080
VENV := .venv
BIN := $(VENV)/bin
PEERS_DIR ?= $(HOME)/.cache/content-gateway/peers
export PEERS_DIR
# Most tests wait more than they compute: six at a time suit two processors. They begin in the order
# that tests/conftest.py gives them: by number, the files with few and long ones would come last.
TESTS_AT_ONCE ?= 6
AT_ONCE := -n $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder
# Courses of events for `make simulate`, and how many are simulated at a time.
SEEDS ?= 10000
SIMULATIONS_AT_ONCE ?= 2
# How long `make machines` has its machines fail.
MINUTES ?= 20
# Fuzzing and models draw other cases each day; all processes of a run draw the same ones.
TEST_SEED ?= $(shell date -u +%Y%m%d)
export TEST_SEED
# Hundreds of processes are started by tests: none compiles again what another one has.
unexport PYTHONDONTWRITEBYTECODE

# Plain `make` lists them too.
.DEFAULT_GOAL := help

.PHONY: help setup run test test-deep faults simulate machines coverage check bench bench-before same-answers docs peers lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime ## build .venv from requirements.lock

run: setup ## start the embedded default on http://127.0.0.1:8080 (PORT=9000 changes the port)
	@exec $(BIN)/content-gateway dev --port $(PORT)

test: $(VENV)/.dev ## run the tests but the long proofs; those of real servers skip unless `make peers` was run
	$(BIN)/python -m pytest -m "not deep" $(AT_ONCE)

test-deep: $(VENV)/.dev ## run the long proofs: kills, models, fuzzing in depth; then measure coverage
	$(BIN)/python -m pytest -m deep
	@$(MAKE) coverage

faults: $(VENV)/.dev ## every fault with its number, on SQLite and PostgreSQL, into docs/faults.md; ROWS="kills clock" runs some
	$(BIN)/python -m tests.faults $(ROWS)

simulate: $(VENV)/.dev ## kill and hinder simulated processes in SEEDS=10000 courses of events
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --processes $(SIMULATIONS_AT_ONCE)

machines: $(VENV)/.dev ## kill and cut gateways, PostgreSQL and a cluster for MINUTES=20; nothing may be lost
	$(BIN)/python -m tests.machines --minutes $(MINUTES) --seed $(TEST_SEED)

coverage: $(VENV)/.dev ## print which branches make test leaves out; traced, some tests are too slow to pass
	-$(BIN)/python -m pytest -m "not deep" $(AT_ONCE) --tb=no --show-capture=no --cov --cov-report= > .pytest_coverage.log 2>&1
	-@tail -1 .pytest_coverage.log
	-$(BIN)/coverage report

check: $(VENV)/.dev ## style, types, import rules
	$(BIN)/ruff format --check src tests bench tools examples
	$(BIN)/ruff check src tests bench tools examples
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev ## speed against a bare ASGI function, in one run
	$(BIN)/python -m bench

bench-before: $(VENV)/.dev ## the service's speed as a part of that of the checkout BEFORE=DIR
	$(BIN)/python -m bench.before $(BEFORE)

same-answers: $(VENV)/.dev ## whether 790 requests are answered as by the checkout BEFORE=DIR
	$(BIN)/python -m tools.same_answers $(BEFORE)

peers: ## install the real servers that tests use into PEERS_DIR
	tools/peers

docs: $(VENV)/.dev ## draw what is drawn from the code
	$(BIN)/python -m tools.docs

lock: $(VENV)/.dev ## resolve the dependencies again
	$(BIN)/pip install -q pip-tools
	$(BIN)/pip-compile -q --generate-hashes --strip-extras --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements.lock pyproject.toml
	$(BIN)/pip-compile -q --generate-hashes --strip-extras --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --allow-unsafe --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

clean: ## remove what was built
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.runtime: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	@$(BIN)/pip check --disable-pip-version-check
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	@$(BIN)/pip check --disable-pip-version-check
	@touch $@
