# Everything a newcomer needs: `make demo` and `make test`. Each sets up what it needs by itself.

PYTHON := $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Without bytecode every process compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# Long tests first: the process that has them keeps them, and the other takes over what lies behind.
QUICK := tests/test_walk.py tests/chaos tests/unit
ALL := tests/test_walk.py tests/system tests/chaos tests/integration tests/unit

.PHONY: help setup demo test test-rest test-all check docs bench chaos fuzz lock clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## virtual environment, pinned dependencies, weights, a Chromium, a Prometheus; PostgreSQL for root
	@$(PYTHON) .ci/setup.py services

demo: ## ask a question the empty corpus cannot answer, and see the whole loop
	@$(PYTHON) .ci/setup.py
	@$(BIN)/python -m bench.demo.run

test: ## the quick tests: the walk, the units, a smoke of each family of faults; five minutes on two cores
	@$(PYTHON) .ci/setup.py
	$(PYTEST) -m quick $(QUICK)

test-rest: setup ## what `make test` leaves out: processes, browsers, PostgreSQL, whole instances, faults
	HYPOTHESIS_PROFILE=ci $(PYTEST) -m "not quick" $(ALL)

test-all: setup ## every test; what was skipped is listed with its reason
	HYPOTHESIS_PROFILE=ci $(PYTEST) $(ALL)

check: setup ## style, types, import layers, declared dependencies, size, compose schema
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/python .ci/budget.py
	@if [ -f compose.yaml ]; then $(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml; fi

chaos: setup ## kill, cut, flush, fill and deceive everything, and see that nothing is lost or let out
	$(BIN)/python -m tests.chaos

fuzz: setup ## ten minutes of made-up addresses, robots files, pages and PDFs each
	$(BIN)/python -m tests.chaos.fuzz

docs: ## the manual as a site in dist/docs, with every link checked
	@$(PYTHON) .ci/setup.py docs
	$(BIN)/python .ci/manual.py

bench: setup ## the figures in the README
	$(BIN)/python -m bench

lock: setup ## renew constraints.txt from pyproject.toml
	$(PYTHON) .ci/setup.py lock

clean: ## remove what was made here; data stays
	rm -rf .venv .cache .demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
