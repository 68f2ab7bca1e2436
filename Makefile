# Everything a newcomer needs: `make demo` and `make test`. Each sets up what it needs by itself.

PYTHON := $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: help setup demo test check bench chaos fuzz lock clean

help: ## what can be made
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: ## virtual environment, pinned dependencies, weights, a Chromium; PostgreSQL for root
	@$(PYTHON) .ci/setup.py postgres

demo: ## ask a question the empty corpus cannot answer, and see the whole loop
	@$(PYTHON) .ci/setup.py
	@$(BIN)/python -m bench.demo.run

test: setup ## every test; what was skipped is listed with its reason
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: setup ## style, types, import layers, declared dependencies, compose schema
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	@if [ -f compose.yaml ]; then $(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml; fi

chaos: setup ## kill, cut, flush, fill and deceive everything, and see that nothing is lost or let out
	$(BIN)/python -m tests.chaos

fuzz: setup ## ten minutes of made-up addresses, robots files, pages and PDFs each
	$(BIN)/python -m tests.chaos.fuzz

bench: setup ## the figures in the README
	$(BIN)/python -m bench

lock: setup ## renew constraints.txt from pyproject.toml
	$(PYTHON) .ci/setup.py lock

clean: ## remove what was made here; data stays
	rm -rf .venv .cache .demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
