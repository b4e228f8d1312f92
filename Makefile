PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Numerical libraries on more threads than the tests have cores only slow one another down.
WORKERS ?= 2

.PHONY: help setup demo test check bench regressions clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(READY) ## Make .venv with everything pinned in constraints.txt

$(READY): pyproject.toml constraints.txt
	@test ! -L .venv || { echo '.venv is a link: its packages belong to another checkout; rm .venv first' >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY) ## Run the whole main job on the bundled gold set
	$(BIN)/assay demo

test: $(READY) ## Run all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: $(READY) ## Lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## Measure; every figure is a ratio within one run
	$(BIN)/python benchmarks/shapes.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/sweep_scale.py
	$(BIN)/python benchmarks/sweep_kills.py
	$(BIN)/python benchmarks/sweep_noise.py
	$(BIN)/python benchmarks/spl_ddi_sweep.py
	$(BIN)/python benchmarks/profile_studies.py
	$(BIN)/python benchmarks/attribution.py
	$(BIN)/python benchmarks/rank_weight.py
	$(BIN)/python benchmarks/domain_threshold.py
	$(BIN)/python benchmarks/kinase_lookup.py
	$(BIN)/python benchmarks/smoke_arms.py
	$(BIN)/python benchmarks/offline_reranker.py
	$(BIN)/python benchmarks/headroom_bound.py
	$(BIN)/python benchmarks/diagnosis.py
	$(BIN)/python benchmarks/dashboard.py
	$(BIN)/python benchmarks/gate_calibration.py
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/bc5cdr_matching.py
	$(BIN)/python benchmarks/bc5cdr_linking.py

regressions: $(READY) ## Rebuild and check the pinned figures (ARGS=--quick, ARGS=--update)
	$(BIN)/python -m experiments.regressions $(ARGS)

clean: ## Remove the environment and everything computed
	rm -rf .venv .assay
