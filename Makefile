PYTHON ?= python

.PHONY: check lint types test test-slow

check: lint types

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

test-slow:
	$(PYTHON) -m pytest -m slow
