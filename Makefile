PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell nproc)
# Tests of the algorithms that also run as on a GPU or without a compiler: float64 references, and two reuse loops.
WITHOUT_KERNELS := "test_one_update_is_that_of_numpy and (7-small or none or vectors or images or tqc-0 or darc-0 or \
	redq-3) and not (authors or original or default or drqv2) or test_reuse_equals_manual_updates and (4-40-ddpg or 4-40-dqn)"
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: install demo test test-slow bench bench-quick format

.venv/package: pyproject.toml  # the package alone
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/developed: .venv/package  # with the developers' tools and all suites
	$(PIP) -e ".[dev]"
	touch $@

.venv/peers: .venv/developed  # with the libraries that smrl is compared with
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
	$(BIN)/pytest -n $(CORES) --dist worksteal -m "not slow"
	SMRL_KERNELS=xla $(BIN)/pytest -n $(CORES) --dist worksteal tests/algorithms -k $(WITHOUT_KERNELS)

test-slow: install  # long tests, among them the kernels with sanitizers and with fewer vector instructions
	$(BIN)/pytest -n $(CORES) -m slow

bench: .venv/peers  # all sections, with peers; writes benchmarks/results.md, .json and .png
	$(BIN)/python -m benchmarks

bench-quick: .venv/peers  # the core of it in five minutes; writes build/bench/
	$(BIN)/python -m benchmarks --quick

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
