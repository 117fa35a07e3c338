# One command each; `run` and `test` need nothing but Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := proto agent coordinator adversary lab tests benchmarks docs examples
# what the adversary in JavaScript needs; without npm its tests are skipped
PACKAGES := $(if $(shell command -v npm 2>/dev/null),adversary/examples/node/node_modules)
LOCKED := --quiet --upgrade --generate-hashes --python-version 3.11 --python-platform linux --custom-compile-command 'make lock'

.PHONY: run test slow test-cluster test-deploy test-autodiff check lint types layers docs proto lock bench reliability clean

run: .venv/product
	$(BIN)/slaternet run

test: .venv/development $(PACKAGES)
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not cluster and not deploy"

# the few tests that take long, such as forty hosts as processes
slow: .venv/development
	$(BIN)/pytest -n 2 --dist worksteal -m slow

# services in network namespaces through a relay that loses and reorders packets; without root all is skipped, saying so
test-cluster: .venv/development
	@command -v ip >/dev/null || test "$$(id -u)" != 0 || { apt-get -qq update && apt-get -qq install -y iproute2; }
	$(BIN)/pytest tests/cluster

# the image built, docker-compose.yml played, in a container engine that is set up first; the adversary in C++ built and played;
# without root or Debian all that is skipped, saying so
test-deploy: .venv/development
	tests/deploy/engine >/dev/null || test $$? = 77
	@{ command -v grpc_cpp_plugin && pkg-config --exists grpc++; } >/dev/null 2>&1 || test "$$(id -u)" != 0 || ! command -v apt-get \
		|| { apt-get -qq update && apt-get -qq install -y g++ pkg-config libgrpc++-dev protobuf-compiler-grpc >/dev/null; }
	$(BIN)/pytest tests/deploy

# the adversary in jax, a library of 350 MB that nothing else needs; without a network its tests are skipped, saying so
test-autodiff: .venv/development
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[autodiff]' \
		|| echo "pip could not install jax: the tests of examples/jax_losses.py will be skipped"
	$(BIN)/pytest tests/docs/test_autodiff.py

# everything that must hold before a change lands
check: lint types layers docs test slow

lint: .venv/development
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: .venv/development
	$(BIN)/mypy

layers: .venv/development
	$(BIN)/lint-imports

# the pages as a site in site/; strict: a broken link, a missing page or a name that is gone is an error
docs: .venv/development
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# the generated code is committed; a test compares it with the .proto files
proto: .venv/development
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto --python_out=proto --mypy_out=quiet:proto proto/slaternet/v1/*.proto

# what the image is made of, by version and hash; a test compares it with pyproject.toml
lock: .venv/development
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile $(LOCKED) pyproject.toml --output-file requirements.lock
	echo 'hatchling>=1.27' | $(BIN)/uv pip compile $(LOCKED) - --output-file requirements-build.lock

# exit code 1 where a claim of docs/performance.md does not hold; ARGUMENTS="--before TREE" compares with another checkout in
# the same turns, "--long" plays 100 000 rounds as well, "--only race,start" does less of it
bench: .venv/development
	$(BIN)/python -m benchmarks $(ARGUMENTS)

# at length what CI does for minutes; ARGUMENTS="--only cluster --kills 20 --others 10" does less of it
reliability: .venv/development
	$(BIN)/python -m tests.reliability $(ARGUMENTS)

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
	rm -rf .venv site adversary/examples/node/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
