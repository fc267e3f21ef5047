# Troupe. Needs GNU make, bash and Python 3.11 or newer; everything else goes into .venv.
#
#   make serve                            set up, fetch the model, serve configs/local.yaml
#   make serve CONFIG=configs/other.yaml  serve another configuration
#   make serve BACKEND=cuda12             MLX backend: metal (macOS), cpu, cuda12, cuda13 (Linux)
#   make test lint bench                  work on Troupe
#   make lock                             choose versions anew and write requirements/

SHELL := /bin/bash
CONFIG ?= configs/local.yaml
VENV := .venv
BIN := $(VENV)/bin
SYSTEM := $(shell uname -s)

ifeq ($(SYSTEM),Darwin)
BACKENDS := metal
else
BACKENDS := cpu cuda12 cuda13
endif
BACKEND ?= $(firstword $(BACKENDS))
ifeq ($(filter $(BACKEND),$(BACKENDS)),)
$(error BACKEND=$(BACKEND) is unknown on $(SYSTEM); choose one of: $(BACKENDS))
endif

# On macOS, Metal comes with mlx itself, so there is no lock of its own for it.
LOCKS := requirements/run.txt requirements/torch.txt $(filter-out requirements/metal.txt,requirements/$(BACKEND).txt)
RUN_STAMP := $(VENV)/.troupe-$(BACKEND)-run
DEV_STAMP := $(VENV)/.troupe-$(BACKEND)-dev
CLIENTS := .venv-clients
CLIENTS_STAMP := $(CLIENTS)/.troupe

# Ray reads its environment when it starts; actors/ray_environment.py says what and why.
RAY_ENV = $$($(BIN)/troupe environment)

# MLX on a Linux CPU is about thirty times faster in float32 with OpenBLAS in front of its own BLAS.
OPENBLAS := $(firstword $(wildcard /usr/lib/*-linux-gnu/libopenblas.so.0 /usr/lib64/libopenblas.so.0 \
	/usr/lib/libopenblas.so.0))
ifeq ($(BACKEND)$(OPENBLAS),cpu)
BLAS_HINT := @echo "Hint: OpenBLAS is missing, the CPU backend is slow without it (Debian: libopenblas0-pthread)."
endif
ifeq ($(BACKEND),cpu)
PRELOAD := $(if $(OPENBLAS),LD_PRELOAD=$(OPENBLAS))
endif

.PHONY: help setup setup-dev serve test lint format bench bench-contract lock clean
.DEFAULT_GOAL := help

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

setup: $(RUN_STAMP)

setup-dev: $(DEV_STAMP)

serve: $(RUN_STAMP)
	$(BLAS_HINT)
	@$(BIN)/troupe prepare $(CONFIG)
	@exec env $(RAY_ENV) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/serve run $(CONFIG)

test: $(DEV_STAMP) $(CLIENTS_STAMP)
	$(BLAS_HINT)
	@env $(RAY_ENV) $(PRELOAD) $(BIN)/python -m pytest $(ARGS)

lint: $(DEV_STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(DEV_STAMP)
	$(BLAS_HINT)
	@env $(RAY_ENV) $(BIN)/python -m benchmarks $(ARGS)

bench-contract: $(DEV_STAMP)
	$(BLAS_HINT)
	@env $(RAY_ENV) $(BIN)/python -m benchmarks.contract $(ARGS)

clean:
	rm -rf $(VENV) $(CLIENTS) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find actors routes tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with $$("$$name" --version)"; exec "$$name" -m venv $(VENV); \
	  fi; \
	done; echo "Troupe needs Python 3.11 or newer, and python3 here is: $$(python3 --version 2>&1)" >&2; exit 1

# All backends write the same libmlx.so. Another one goes before this one comes, never the other way round.
$(RUN_STAMP): pyproject.toml $(LOCKS) | $(BIN)/python
	@rm -f $(VENV)/.troupe-*
	@$(BIN)/python -m pip uninstall -qq -y $(patsubst %,mlx-%,$(subst cuda,cuda-,$(filter-out $(BACKEND) metal,$(BACKENDS))))
	$(BIN)/python -m pip install -q --disable-pip-version-check $(LOCKS:%=-r %)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -e .
	@touch $@

$(DEV_STAMP): requirements/dev.txt $(RUN_STAMP)
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

# Clients that need other versions of what Troupe has.
$(CLIENTS_STAMP): requirements/clients.txt | $(BIN)/python
	@test -x $(CLIENTS)/bin/python || $(BIN)/python -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install -q --disable-pip-version-check -r requirements/clients.txt
	@touch $@

# One resolution for macOS and Linux and every Python from 3.11 on; no index address goes into the files.
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
	--upgrade --custom-compile-command "make lock"

lock: | $(BIN)/python
	$(BIN)/python -m pip install -q uv
	$(COMPILE) --no-emit-package mlx-cpu pyproject.toml -o requirements/run.txt
	$(COMPILE) --no-emit-package mlx-cpu pyproject.toml --extra dev -c requirements/run.txt -o requirements/dev.txt
	for backend in cpu cuda12 cuda13; do \
	  grep -E '^mlx==' requirements/run.txt | sed "s/^mlx/mlx[$$backend]/" \
	    | $(COMPILE) - -c requirements/run.txt -o requirements/$$backend.txt || exit 1; \
	done
	$(COMPILE) --group clients -o requirements/clients.txt
	@if grep -E '^nvidia-' requirements/run.txt; then echo "a CUDA build of torch got into the locks" >&2; exit 1; fi
