# Each target sets up what it needs. `make` alone lists them.
PYTHON ?= $(shell scripts/find_python)
VENV   := .venv
BIN    := $(VENV)/bin
LOCKS  := $(wildcard tests/web/package-lock.json packages/*/package-lock.json examples/*/package-lock.json)
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
# Many tests start processes, and each would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo serve chat test soak check docs bench web page clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

$(VENV)/base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q --upgrade pip
	$(PIP) install -q -e '.[cli,docstrings,server]'
	@touch $@

$(VENV)/local: $(VENV)/base
	-$(PIP) install -q -e '.[local]'
	@touch $@

$(VENV)/test: $(VENV)/base
	$(PIP) install -q --group test
	@touch $@

$(VENV)/check: $(VENV)/test
	$(PIP) install -q --group check
	@touch $@

$(VENV)/bench: $(VENV)/test
	$(PIP) install -q --group bench
	@touch $@

# Touched by the script once nothing is missing: where something is, the next run says so again.
$(VENV)/web: $(VENV)/base scripts/install_web.py $(LOCKS)
	@$(BIN)/python scripts/install_web.py --stamp $@

demo: $(VENV)/local ## a real conversation of four turns, no key needed (fetches a small model once)
	@$(BIN)/python scripts/fetch_model.py --if-needed
	@$(BIN)/python examples/demo.py

serve: $(VENV)/local ## a page in the browser, with the conversation of the demo
	@$(BIN)/sapwood serve --db demo.db

chat: $(VENV)/local ## talk to the best model there is
	@$(BIN)/sapwood chat

test: $(VENV)/test $(VENV)/web ## every test on every Python here
	@scripts/test

soak: $(VENV)/test $(VENV)/web ## the tests that take more than ten seconds
	$(BIN)/python -m pytest -m "soak and not alone and not browser" -n 2 --timeout 600
	$(BIN)/python -m pytest -m "soak and (alone or browser)" --timeout 600

check: $(VENV)/check $(VENV)/web ## lint, format, types, layers, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --disable-error-code import-not-found scripts/*.py examples/*.py
	$(BIN)/pyright
	$(BIN)/lint-imports
	scripts/check_web
	$(BIN)/python -m pytest tests/architecture

web: $(VENV)/web ## install a browser and the packages of the tests in other languages

page: $(VENV)/web ## build the page into the package
	npm --prefix packages/page run build

docs: $(VENV)/base ## draw the generated parts of the documentation anew
	$(BIN)/python scripts/draw_docs.py

bench: $(VENV)/bench ## measure, and print the table of figures
	$(BIN)/python -m benchmarks

clean: ## remove what the targets made
	rm -rf $(VENV) .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
