# Everything is set up in .venv by the first target that needs it; python3, gcc, git and make are all that must be there.
VENV := .venv
PY := $(VENV)/bin/python
TORCH ?= torch==2.13.0
SPEC ?= kernel-specs/rmsnorm-cpu
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo campaign test attack lint clean

setup: $(VENV)/.campaign

$(VENV)/bin/python:
	python3 -m venv $(VENV)

$(VENV)/.campaign: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet $(TORCH)
	$(VENV)/bin/pip install --quiet --editable '.[runner]'
	touch $@

$(VENV)/.dev: $(VENV)/.campaign
	$(VENV)/bin/pip install --quiet --editable '.[runner,cuda,models,github,dev]'
	touch $@

$(VENV)/.demo: $(VENV)/.campaign
	$(VENV)/bin/pip install --quiet --editable '.[runner,github]'
	touch $@

demo: $(VENV)/.demo
	$(VENV)/bin/kernel-factory demo $(ARGS)

campaign: $(VENV)/.campaign
	$(VENV)/bin/kernel-factory campaign $(SPEC) $(ARGS)

test: $(VENV)/.dev
	$(PY) -m pytest -n 3 --dist worksteal --durations=25 -m "not measures and not suite" $(ARGS)
	$(PY) -m pytest -m measures --durations=10 $(ARGS) $$(grep -rl 'mark\.measures' tests --include='test_*.py')

# Every case and control of the adversarial suite, as this user and (from root) as an ordinary one, every seed at which a
# campaign is killed, and every misbehaviour of the forge.
attack: $(VENV)/.dev
	$(PY) -m pytest -m suite $(ARGS)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

clean:
	rm -rf $(VENV) .kernel-factory
