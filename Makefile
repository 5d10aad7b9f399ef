# The verbs of working here. Each does the set-up that it needs.
CACHE := $(or $(PENSTOCK_CACHE),$(HOME)/.cache/penstock)
JOBS ?= $(shell nproc)
SECONDS ?= 60
SEEDS ?= 200
FROM ?= 1
KILLS ?= 30
ROUNDS ?= 3
PAIRS ?= 30

export CCACHE_DIR := $(CACHE)/ccache
# Two clones compile the same thing once.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

PYTHON_HERE := PYTHONPATH=$(CURDIR)/python $(CURDIR)/.venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup setup-clang setup-slurm setup-valgrind build tf-op demo test test-cpp test-sim test-python lint tsan fuzz sim-build sim chaos bench-programs bench-setup bench scale instructions unguarded overhead

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Debian packages and .venv: what is missing, nothing else
	@PENSTOCK_CACHE=$(CACHE) scripts/setup.sh

setup-clang:
	@PENSTOCK_CACHE=$(CACHE) scripts/setup.sh clang

setup-slurm:
	@scripts/setup.sh slurm

build: setup ## the penstock executable and the Python package, in python/penstock
	@cmake --preset release >/dev/null
	@ninja -C build/release -j $(JOBS) --quiet
	@cmake --install build/release --prefix python --component python >/dev/null

# Before many tests want it at once.
tf-op: build
	@TF_CPP_MIN_LOG_LEVEL=3 $(PYTHON_HERE) -c 'from penstock._tf_op import build; build.library()' 2>/dev/null

demo: build ## ranks read what workers prepare while about everything is killed, and resume on more ranks
	@$(PYTHON_HERE) -m penstock.demo

test: test-cpp test-sim bench-programs test-python ## what CI runs

test-cpp: setup ## the C++ tests, with ASan and UBSan
	@cmake --preset check >/dev/null
	@ninja -C build/check -j $(JOBS) --quiet
	@ctest --test-dir build/check -j $(JOBS) --output-on-failure --no-tests=error

test-python: build tf-op setup-slurm ## the Python tests, with real processes
	@$(PYTHON_HERE) -m pytest

test-sim: sim-build ## the simulator: 3,000 seeds find nothing, and each bug that is planted
	@build/release/bin/penstock-sim --seeds 3000
	@build/release/bin/penstock-sim --seeds 2000 --from 501 --prove

lint: setup-clang ## clang-format, ruff, mypy; clang-tidy on what changed
	@scripts/lint.sh

tsan: setup ## the C++ tests, with ThreadSanitizer
	@cmake --preset tsan >/dev/null
	@ninja -C build/tsan -j $(JOBS) --quiet
	@ctest --test-dir build/tsan -j $(JOBS) --output-on-failure --no-tests=error

fuzz: setup-clang ## every fuzz target for SECONDS=60
	@scripts/fuzz.sh $(SECONDS)

sim-build: setup
	@cmake --preset release >/dev/null
	@ninja -C build/release -j $(JOBS) --quiet penstock-sim

sim: sim-build ## the simulator: SEEDS=200 whole clusters on all cores, FROM=1
	@build/release/bin/penstock-sim --seeds $(SEEDS) --from $(FROM)

chaos: build ## real processes: KILLS=30 faults at random, an independent count of lost and duplicated rows [SEED=N MODES=shared,strict]
	@$(PYTHON_HERE) -m tests.chaos --kills $(KILLS) $(if $(SEED),--seed $(SEED)) $(if $(MODES),--modes $(MODES))

bench-programs: build
	@ninja -C build/release -j $(JOBS) --quiet bench_programs

bench-setup: ## the peers that benchmarks compare with, in an environment of their own
	@PENSTOCK_CACHE=$(CACHE) scripts/setup.sh bench

bench: bench-programs bench-setup unguarded ## penstock beside its peers on this machine: writes docs/benchmarks.md [ROUNDS=3 PAIRS=30 ONLY=records,start]
	@PYTHONPATH=$(CURDIR)/python .venv-bench/bin/python bench/report.py --rounds $(ROUNDS) --pairs $(PAIRS) $(if $(ONLY),--only $(ONLY))

scale: bench-programs ## a dispatcher under thousands: workers, consumers, jobs, connections
	@$(PYTHON_HERE) bench/scale.py
	@$(PYTHON_HERE) bench/connections.py

setup-valgrind:
	@PENSTOCK_CACHE=$(CACHE) scripts/setup.sh valgrind

instructions: bench-programs setup-valgrind ## of the hot loops for a row, by callgrind, beside those recorded [RECORD=1 writes them]
	@$(PYTHON_HERE) bench/instructions.py $(if $(RECORD),--record)

unguarded: build
	@cmake --preset unguarded >/dev/null
	@ninja -C build/unguarded -j $(JOBS) --quiet
	@cp -r python build/unguarded/ && cmake --install build/unguarded --prefix build/unguarded/python --component python >/dev/null

overhead: unguarded ## what guarantees cost an undisturbed run, in PAIRS=30 of runs with and without
	@$(PYTHON_HERE) bench/overhead.py --pairs $(PAIRS)
