# One command each; `run` and `test` need nothing but Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := proto agent coordinator adversary lab tests benchmarks
# what the adversary in JavaScript needs; without npm its tests are skipped
PACKAGES := $(if $(shell command -v npm 2>/dev/null),adversary/examples/node/node_modules)

.PHONY: run test slow check lint types layers proto bench clean

run: .venv/product
	$(BIN)/slaternet run

test: .venv/development $(PACKAGES)
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

# the few tests that take long, such as forty hosts as processes
slow: .venv/development
	$(BIN)/pytest -m slow

# everything that must hold before a change lands
check: lint types layers test slow

lint: .venv/development
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: .venv/development
	$(BIN)/mypy

layers: .venv/development
	$(BIN)/lint-imports

# the generated code is committed; a test compares it with the .proto files
proto: .venv/development
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto --python_out=proto --mypy_out=quiet:proto proto/slaternet/v1/*.proto

bench: .venv/development
	$(BIN)/python -m benchmarks

.venv/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Slaternet needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	touch $@

.venv/product: .venv/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/development: .venv/product
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

adversary/examples/node/node_modules: adversary/examples/node/package-lock.json
	cd $(@D) && npm ci --silent --ignore-scripts --fetch-retries=1 && touch node_modules \
		|| echo "npm could not install the packages of $(@D): its tests will be skipped"

clean:
	rm -rf .venv adversary/examples/node/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
