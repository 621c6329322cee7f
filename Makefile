# What a developer runs, and CI (.ci/run). Every target that needs the virtual environment makes it first.
.PHONY: venv demo test test-all check docs test-oldest wheel-test clean
.DEFAULT_GOAL := test

PYTHON ?= python3
BIN := .venv/bin
OLDEST := .venv-oldest/bin

DEMO ?= $(BIN)/sparring demo

# The oldest torch that is tested. 2.6 is the floor in pyproject.toml, but PyPI's Linux builds of 2.6 to 2.12 for x86-64 bring
# gigabytes of CUDA; so the default is the one that constraints.txt pins, and `make test-oldest OLDEST_TORCH=2.6.0` tests the floor.
OLDEST_TORCH ?= 2.13.0

# Debian packages that slow tests need. Where there is no apt-get, the tests that need one say which they miss.
DEBIAN_PACKAGES :=

# No test reaches for a hub. Two workers on one thread each are faster than one on two: the models are tiny.
PYTEST := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest
WORKERS ?= 2

venv: .venv/made

.venv/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: venv
	$(DEMO)

test: venv
	$(PYTEST) -m "not slow" -n $(WORKERS)

test-all: venv
	@if [ -n "$(DEBIAN_PACKAGES)" ] && command -v apt-get >/dev/null; then \
		apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends $(DEBIAN_PACKAGES); \
	fi
	$(PYTEST) -m slow

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q tests/test_architecture.py

docs: venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv-oldest/made: pyproject.toml constraints-oldest.txt Makefile
	$(PYTHON) -m venv .venv-oldest
	$(OLDEST)/python -m pip install --disable-pip-version-check --quiet --constraint constraints-oldest.txt \
		torch==$(OLDEST_TORCH) --editable '.[huggingface,cli,data,quickstart,test]'
	touch $@

# Old libraries warn of what newer Pythons and numpys deprecate, so here warnings are not errors.
test-oldest: .venv-oldest/made
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(OLDEST)/python -m pytest -W default -m "not slow" -n $(WORKERS)

wheel-test: venv
	$(PYTEST) -m slow tests/test_wheel.py

clean:
	rm -rf .venv .venv-oldest build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
