PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format bench bench-paper bench-data bench-convergence docs clean

demo: .venv/demo ## learn a dictionary of a real AVIRIS scene and draw it
	$(BIN)/python examples/hyperspectral.py --output demo

test: .venv/dev ## run all tests
	$(BIN)/python -m pytest --numprocesses 2

lint: .venv/dev ## check style, types and formatting
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports

format: .venv/dev ## rewrite the sources in the project's style
	$(BIN)/ruff check --fix && $(BIN)/ruff format

docs: .venv/docs ## build the site: site/index.html
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs site

bench: .venv/bench ## measure speed, against the floor and against peers (ten minutes)
	$(BIN)/python -m benchmarks.speed && $(BIN)/python -m benchmarks.scaling

bench-paper: .venv/bench ## measure the paper's Figure 1 and its claims (half an hour; SCENES=file.npy adds data)
	$(BIN)/python -m benchmarks.figure1 $(if $(SCENES),--scenes $(SCENES)) && $(BIN)/python -m benchmarks.complexity

bench-data: .venv/bench ## measure what reading from a disk costs, and the terabyte
	$(BIN)/python -m benchmarks.io && $(BIN)/python -m benchmarks.terabyte

bench-convergence: .venv/bench ## see what converges, and what reduction="auto" is worth
	$(BIN)/python -m benchmarks.convergence && $(BIN)/python -m benchmarks.reduction

clean: ## remove what the other targets made
	rm -rf .venv demo site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@
