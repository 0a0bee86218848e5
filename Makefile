# Every target sets up what it needs in .venv; nothing else has to be done first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test soak programs bench docs lint clean

demo: $(READY)            ## all strategies on the synthetic streams: a table and a picture in about a minute
	$(BIN)/headwater run synthetic --out runs/demo

test: $(READY) lint programs  ## linters, types, import contracts, doctests, the README's commands and all tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto   # a process a core, one thread each

MINUTES ?= 30
soak: $(READY) programs   ## kills, damaged files and bad inputs at random for MINUTES; failures can be repeated
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --minutes $(MINUTES)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m soak   # parts of a real federation, killed twenty times each

programs:                 ## mosquitto and chromium, for the tests that need them; where they may be installed
	@sh tools/install_programs.sh

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)            ## the documents as one site in site/, to be read without internet
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(READY)           ## speed as ratios in one run, with all peers, on an idle machine: about 40 minutes
	$(BIN)/python -m benchmarks.pieces

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) runs
