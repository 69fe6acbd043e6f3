PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell nproc)

.PHONY: install demo test test-slow bench format

install: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

demo: install  # SAC on Pendulum with and without reuse: a table and a picture
	$(BIN)/smrl compare sac Pendulum-v1 --reuse 1 10 --seeds 2 --steps 2500 --warmup 500 --eval-every 250 --target -200

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n $(CORES) --dist worksteal -m "not slow"

test-slow: install
	$(BIN)/pytest -n $(CORES) -m slow

bench: install
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.tabular
	$(BIN)/python -m benchmarks.environments

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
