# Every target sets up what it needs in .venv; the first call takes a minute, later ones start at once.
#
#   make run PYTHON=python3.12       another interpreter; VENV=FOLDER keeps its environment beside .venv
#   make test ARGS="tests/planner"   arguments for pytest

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help environment run-environment run test servers system-servers mcp-servers model model-test prompts crash soak check check-format check-lint check-pyright check-mypy check-imports format bench dojo docs tour dist lock clean

VENV ?= .venv
BIN := $(VENV)/bin
JOB ?= plans/stocks.job.yaml
ARGS ?=
export PYTHON VENV
# Tests start hundreds of processes of our own; without compiled modules each of them would compile all of them.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

environment:
	@sh .ci/environment

run-environment:
	@sh .ci/environment run

run: run-environment ## Run the plan over real stock prices and write its report
	@$(BIN)/wavewright run $(JOB) $(ARGS)

# A third of the tests' time is waiting, for processes and servers.
TEST_WORKERS = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))

test: servers ## Run every test
	@$(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --dist worksteal $(ARGS)

# What tests start: browser, databases, brokers, models. What comes from the network is fetched
# while the packages of the system are installed, one after another.
servers: environment
	@$(MAKE) --no-print-directory --keep-going --jobs=3 system-servers mcp-servers model

system-servers:
	@sh .ci/browser
	@sh .ci/postgres
	@sh .ci/rabbitmq
	@sh .ci/proxies

mcp-servers: environment
	@sh .ci/mcp-servers

model: environment ## Set up a small language model for the tests (180 MB)
	@sh .ci/model

model-test: model ## Ask the small language model in every way, and run its plans
	@WAVEWRIGHT_MODEL_TESTS=1 $(BIN)/python -m pytest tests/local_model -s --durations=0 $(ARGS)

prompts: environment ## Print what models are asked, for four goals or for a job (JOB=FILE)
	@$(BIN)/python -m tests.prompts.test_prompts_of_goals $(if $(findstring file,$(origin JOB)),,$(JOB))

crash: environment ## Run the whole crash programme: kills, faults of disk, network and clock
	@sh .ci/postgres
	@sh .ci/rabbitmq
	@sh .ci/faketime
	@WAVEWRIGHT_CRASH=1 $(BIN)/python -m pytest tests/crash $(LONG_TESTS) --numprocesses 2 --dist worksteal $(ARGS)

# Of these `make test` runs a slice, or draws fewer examples.
LONG_TESTS = $(shell grep --recursive --files-with-matches --extended-regexp '@given|run_size|mark\.long' \
	--include='test_*.py' tests | grep --invert-match ^tests/crash/)

# The type checkers take nearly all of the time, one processor each; what a check prints stays together.
check: environment ## Check format, lint, types and the order of imports
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync) \
		check-format check-lint check-pyright check-mypy check-imports

check-format: environment
	@$(BIN)/ruff format --check --quiet . || { echo "Some files are not formatted: make format"; exit 1; }

check-lint: environment
	@$(BIN)/ruff check --quiet .

check-pyright: environment
	@$(BIN)/pyright

check-mypy: environment
	@$(BIN)/mypy

check-imports: environment
	@$(BIN)/lint-imports --no-cache --no-logo

format: environment ## Format the code and mend what the linter can mend
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

bench: environment ## Measure the engine against plain asyncio (ratios within one run)
	@$(BIN)/python -m benchmarks $(ARGS)

dojo: environment ## Put plans to three public benchmarks, and attack those of AgentDojo
	@sh .ci/public-benchmarks
	@$(BIN)/python -m benchmarks.public --attacks --packages $(VENV)/public-benchmarks $(ARGS)

soak: environment ## Hold daemons under load for twenty minutes, and drain full queues
	@sh .ci/postgres
	@sh .ci/rabbitmq
	@$(BIN)/python -m benchmarks load $(ARGS)

docs: environment ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

tour: environment ## Record the README's tour anew, as a cast and as a picture
	@$(BIN)/python -m docs.record_tour

dist: environment ## Build the sdist and the wheel, judge them, and list their components
	@sh .ci/release

lock: environment ## Write the lock files anew; UPGRADE=1 takes the newest versions
	@test -x $(VENV)/uv/bin/uv || sh .ci/environment pip install --quiet --target $(VENV)/uv uv
	@$(LOCK) --all-extras --group dev --output-file requirements.lock $(if $(UPGRADE),--upgrade)
	@$(LOCK) $(addprefix --extra ,anthropic daemon equities fleet google graph mcp notify otel parquet pdf postgres receipts web) --group build \
		--constraint requirements.lock --output-file requirements-daemon.lock
	@$(LOCK) --extra equities $(addprefix --no-emit-package ,numpy pandas python-dateutil tzdata) --group build \
		--constraint requirements.lock --output-file requirements-run.lock
	@$(subst pyproject.toml,--group release,$(LOCK)) --output-file requirements-release.lock
	@sh .ci/environment

LOCK := $(VENV)/uv/bin/uv pip compile pyproject.toml --quiet --system-certs --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header $(if $(PIP_INDEX_URL),--default-index $(PIP_INDEX_URL))

clean: ## Remove everything that can be made again, the environment included
	@rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist site output
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
