PYTHON ?= python3
BIN := .venv/bin
# Tests in parallel: one more than there are cores, because many of them wait for processes that they have started.
WORKERS := $(shell expr $$(nproc) + 1)
# The versions of requirements.lock; LOCK= takes the newest ones.
LOCK := --constraint requirements.lock
PIP := $(BIN)/pip install --quiet --disable-pip-version-check $(LOCK)
# Tests that also run by XLA, as on a GPU or without a compiler: the conformance table and float64 references, of vectors
# and without XQC, most of which XLA always computes; test-slow runs all tests of the algorithms so.
BY_XLA := (test_conformance or test_one_update_is_that_of_numpy) and not (4-15- or default or drqv2 or pixels or xqc)
# XLA compiles faster if it optimises less; test-slow has XLA's defaults.
QUICKLY := XLA_FLAGS=--xla_backend_optimization_level=0
# Tests start many processes, each of which would otherwise compile smrl's modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo docs test test-slow dist results bench bench-quick lock format

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

.venv/documented: .venv/developed  # with what builds the documentation site and runs the notebook
	$(PIP) -e ".[docs,notebook]"
	touch $@

install: .venv/developed

demo: .venv/package  # SAC on Pendulum with and without reuse: a table and a picture
	$(BIN)/smrl compare sac Pendulum-v1 --reuse 1 10 --seeds 2 --steps 2500 --warmup 500 --eval-every 250 --target -200

docs: .venv/documented  # the documentation site, in build/site; open index.html, no server is needed
	$(BIN)/python -m zensical build --strict --clean

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(QUICKLY) $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow"
	$(QUICKLY) SMRL_KERNELS=xla $(BIN)/pytest -n $(WORKERS) --dist worksteal tests/algorithms -m "not slow" -k "$(BY_XLA)"

test-slow: .venv/peers .venv/documented  # long tests: plug-ins for other libraries, kernels with sanitizers, the notebook, …
	$(BIN)/pytest -n $(WORKERS) -m slow
	SMRL_KERNELS=xla $(BIN)/pytest -n $(WORKERS) --dist worksteal tests/algorithms tests/smr -m "not slow"

dist: .venv/package  # a wheel and an sdist in dist/; the wheel is tried in a fresh environment outside the tree
	$(PIP) build
	rm -rf dist build/lib
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tests/try_wheel.py dist/*.whl

# Studies share the runs in results/; `smrl reproduce NAME --show --runs results` adds one.
STUDIES := $(basename $(notdir $(wildcard results/reproduced/*.md)))
# Code 1 of `smrl report` is a verdict: a run is below its published band. A crash has the same code, but leaves no page.
results: .venv/package  # the page and the figures about the runs in results/, from their tables alone
	rm -f build/report.html
	$(BIN)/smrl report $(filter-out $(addprefix results/,negative/ reproduced/ studies/),$(wildcard results/*/)) --published -o build/report.html || [ $$? -eq 1 ]
	mv build/report.html results/report.html
	$(foreach study,$(STUDIES),$(BIN)/smrl reproduce $(study) --show --runs results &&) true
	$(BIN)/python -m benchmarks.readme_figure

bench: .venv/peers  # all sections, with peers; writes benchmarks/results.md, .json and .png
	$(BIN)/python -m benchmarks

bench-quick: .venv/peers  # the core of it in five minutes; writes build/bench/
	$(BIN)/python -m benchmarks --quick

lock:  # requirements.lock, from a fresh environment with the newest versions of everything
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --disable-pip-version-check -e ".[dev,docs,notebook,peers]"
	head -n 1 requirements.lock > build/versions.txt
	build/lock/bin/pip freeze --exclude-editable | sed 's/+cpu$$//' >> build/versions.txt
	mv build/versions.txt requirements.lock

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
