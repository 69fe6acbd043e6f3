PYTHON ?= python3
BIN := .venv/bin
# Tests in parallel: one more than there are cores, because many of them wait for processes that they have started.
WORKERS := $(shell expr $$(nproc) + 1)
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# Tests that also run by XLA, as on a GPU or without a compiler: the conformance table and float64 references, of vectors;
# test-slow runs all tests of the algorithms so. XLA compiles faster if it optimises less.
BY_XLA := (test_conformance or test_one_update_is_that_of_numpy) and not (4-16- or default or drqv2 or pixels)
# Tests start many processes, each of which would otherwise compile smrl's modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test test-slow bench bench-quick format

.venv/package: pyproject.toml  # the package alone
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/developed: .venv/package  # with the developers' tools and all suites
	$(PIP) -e ".[dev]"
	touch $@

.venv/peers: .venv/developed  # with the libraries that smrl is compared with and has plug-ins for
	$(PIP) -e ".[peers]"
	touch $@

install: .venv/developed

demo: .venv/package  # SAC on Pendulum with and without reuse: a table and a picture
	$(BIN)/smrl compare sac Pendulum-v1 --reuse 1 10 --seeds 2 --steps 2500 --warmup 500 --eval-every 250 --target -200

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow"
	SMRL_KERNELS=xla XLA_FLAGS=--xla_backend_optimization_level=0 \
		$(BIN)/pytest -n $(WORKERS) --dist worksteal tests/algorithms -k "$(BY_XLA)"

test-slow: .venv/peers  # long tests: plug-ins for other libraries, kernels with sanitizers and with fewer vector instructions, …
	$(BIN)/pytest -n $(WORKERS) -m slow
	SMRL_KERNELS=xla $(BIN)/pytest -n $(WORKERS) --dist worksteal tests/algorithms tests/smr -m "not slow"

bench: .venv/peers  # all sections, with peers; writes benchmarks/results.md, .json and .png
	$(BIN)/python -m benchmarks

bench-quick: .venv/peers  # the core of it in five minutes; writes build/bench/
	$(BIN)/python -m benchmarks --quick

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
