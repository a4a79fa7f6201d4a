PYTHON ?= python

.PHONY: check lint types test test-slow chaos soak docs paper results-source-selection record-source-selection

check: lint types

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

# Fifty kills at random moments, half an hour on two cores, going on with its record; then other ends (as root).
chaos:
	$(PYTHON) -m tests.chaos results/chaos
	$(PYTHON) -m tests.chaos_ends results/chaos

# Ten million tokens at constant memory: most of an hour on a core of its own.
soak:
	$(PYTHON) -m tests.soak results/soak

test-slow:
	$(PYTHON) -m pytest -m slow

# Pages of the public names, from their docstrings, in docs/api: needs the extra [docs].
docs:
	$(PYTHON) -m pdoc --docformat google --no-show-source --output-directory docs/api \
		fishersketch fishersketch.baselines '!fishersketch\.(?!baselines$$)'

# Every experiment of the paper that has no record yet, as conf/paper.yaml lists them, then the report of all.
paper:
	@$(PYTHON) -m experiments.paper $(PROFILE)
	@$(PYTHON) -m analysis report results runs/paper/$(PROFILE)

# Tables and figures of the committed record; the record itself first, where its run is missing.
results-source-selection: results/source_selection/metrics.json
	$(PYTHON) -m analysis show results/source_selection

results/source_selection/metrics.json:
	$(MAKE) record-source-selection

# Makes the record: hours of fine-tuning from nothing, minutes where results/source_selection/rows holds all rows.
# Each row is kept as soon as it is there, so that the same command goes on from an interrupted run.
record-source-selection: RUN := runs/records/source_selection-$(shell date +%Y%m%d-%H%M%S)
record-source-selection:
	$(PYTHON) run.py experiment=source_selection hydra.run.dir=$(RUN)
	$(PYTHON) -m analysis record $(RUN) results/source_selection
