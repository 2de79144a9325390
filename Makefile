# make run [ARGS='--configfile config/paper.yaml']   run the default experiment, or another one
# make test                                          run the whole test suite
# make faults                                        test kills, full disks, bad networks and damaged files
# make transformers [HF='==4.56.0']                  run the tests of pam.hf, with a version of transformers
# make audit                                         check that the installed packages are those of the lock
# make docs                                          build a site of the texts, site/index.html
# make pages                                         build the pages of all stored results, site/results/
# make lint                                          check style, types and the workflow's format
# make clean                                         remove environment, site and caches, never results
#
# Each installs what it needs: .venv with the pinned packages of envs/.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install
LOCKED := $(PIP) --no-deps --require-hashes --requirement

# The first of these that is Python 3.11 or newer, unless PYTHON is given.
CANDIDATES := python3 python python3.13 python3.12 python3.11 python3.14
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(firstword $(foreach name,$(CANDIDATES),$(shell $(name) $(NEW_ENOUGH) 2>/dev/null && echo $(name))))

# Images of containers often forbid Python to keep what it has compiled. Each of a run's jobs would compile our code anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test faults transformers audit docs pages lint clean
.DELETE_ON_ERROR:

run: $(VENV)/user
	@$(BIN)/python -m pam run $(ARGS)

# Two more test processes than there are cores, as tests of Slurm mostly wait.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

# A file's tests stay together, so that what they share is made once.
test: $(VENV)/dev
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# One test process more than there are cores, as some wait for disks and slow mirrors.
FAULT_WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# The same tests in their long forms, with none left out; what they showed goes into docs/reliability.md.
faults: $(VENV)/dev
	@$(BIN)/python -m pytest -q -n $(FAULT_WORKERS) --dist worksteal -m '' --records docs/faults.json \
	  tests/faults tests/security tests/test_docs.py \
	  tests/training/test_memory.py tests/training/test_distributed.py \
	  tests/training/test_options.py tests/training/test_failures.py tests/training/test_resume.py \
	  tests/models/test_first_losses.py tests/models/test_teacher_forcing.py \
	  tests/models/test_copying.py tests/models/test_likelihood.py tests/models/test_static.py \
	  tests/decoding/test_search.py tests/decoding/test_looks.py \
	  tests/decoding/test_length_penalties.py \
	  tests/data/test_commands.py tests/data/test_real_text.py tests/test_processors.py \
	  tests/training/test_from_python.py tests/test_distribution.py tests/reporting/test_layout.py \
	  tests/cli/test_bench.py tests/evaluation/test_summarization.py tests/evaluation/test_two_levels.py \
	  tests/workflow/test_yaml.py tests/workflow/test_plans.py::test_many_jobs_are_planned_within_seconds $(ARGS)
	@$(BIN)/python -m tests.faults.render

# An environment of its own on top of the locked one, whose torch stays as it is.
HF :=
HF_VENV := $(VENV)/hf$(subst =,,$(HF))

transformers: $(VENV)/dev
	@$(BIN)/python -m venv --without-pip $(HF_VENV)
	@$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' \
	  > $$($(HF_VENV)/bin/python -c 'import site; print(site.getsitepackages()[0])')/locked.pth
	@$(BIN)/python -m pip --python $(HF_VENV)/bin/python --disable-pip-version-check -qq install \
	  --requirement envs/requirements-torch.txt 'transformers$(HF)' accelerate
	@$(HF_VENV)/bin/python -m pytest -q tests/hf $(ARGS)

audit: $(VENV)/dev
	@$(BIN)/python envs/audit.py

docs: $(VENV)/dev
	@$(BIN)/python -m sphinx -q --fail-on-warning -c docs . site $(ARGS)
	@echo 'site/index.html'

pages: $(VENV)/user
	@$(BIN)/python workflow/scripts/make_pages.py $(ARGS)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy pam benchmarks examples
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Some systems ship Python without the part that puts pip into a new environment.
$(VENV)/python:
	@test -n "$(PYTHON)" || { echo 'error: no Python 3.11 or newer was found' >&2; \
	  echo '  hint: install one, or name it: make run PYTHON=/path/to/python3' >&2; exit 2; }
	@echo 'Making $(VENV)'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  $(PYTHON) -m venv --without-pip $(VENV) && \
	  $(PYTHON) -m pip --python $(BIN)/python --quiet install pip; }
	@touch $@

# torch by its very version: asked for otherwise, pip may fetch a build of gigabytes. All that it
# needs of the lock is there by then, so that pip adds nothing but what this build of it needs.
$(VENV)/locked: envs/requirements-build.txt envs/requirements.txt envs/requirements-torch.txt $(VENV)/python
	@echo 'Installing the packages of envs/requirements.txt, which takes a minute or two'
	@$(LOCKED) envs/requirements-build.txt
	@$(LOCKED) envs/requirements.txt --no-build-isolation
	@$(PIP) --requirement envs/requirements-torch.txt
	@touch $@

$(VENV)/user: pyproject.toml $(VENV)/locked
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev: envs/requirements-dev.txt $(VENV)/user
	@echo 'Installing the packages of $<, which takes a minute or two'
	@$(LOCKED) $<
	@touch $@
