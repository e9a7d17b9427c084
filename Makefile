# Slipway on the command line; `make help` lists the commands.
#
#   make up                     everything: tools, cluster, operator, jobs
#   make logs JOB=mnist-gloo RANK=1
#   make up STACK=mine          another stack, with its settings in Pulumi.mine.yaml

STACK  ?= dev
PYTHON ?= python3
JOB    ?=
RANK   ?=
RUN    ?=
PORT   ?=
WITH   ?=
TO     ?=
KEEP   ?=
FOLLOW ?= 1
WAIT   ?= 1
FORMAT ?= text
BASE   ?=
MINUTES ?=
ROWS   ?=
QUICK  ?=
JUNIT  ?=
SOURCE ?=
FILE   ?=

KNOWN := STACK PYTHON JOB RANK RUN PORT WITH TO KEEP FOLLOW WAIT FORMAT BASE MINUTES QUICK ROWS JUNIT SOURCE FILE
# Neither make nor a shell may interpret a value, so recipes refer to it as "$$ARG_STACK".
$(foreach name,$(KNOWN),\
    $(eval override $(name) := $$(value $(name)))$(eval export ARG_$(name) := $$(value $(name))))
export SOURCE

IN_VENV     := .venv/bin/python -m
IN_TESTS    := .venv-test/bin/python -m
SLIPWAY     := $(IN_VENV) scripts.cli
OF_STACK    := --stack="$$ARG_STACK"
ENVIRONMENT := eval "$$($(SLIPWAY) env)" &&

# If set, every start would recompile the program.
unexport PYTHONDONTWRITEBYTECODE
# These may select another Python or folder. While tests count Pulumi's starts, they set PYTHONPATH.
unexport PYTHONHOME PYTHONSAFEPATH SLIPWAY_PROJECT $(if $(CLI_CALLS),,PYTHONPATH)
# Files are UTF-8, whatever the locale.
export PYTHONUTF8 := 1

# Three processes on two cores, since most tests wait for a cluster; a fourth saves no time.
SPREAD   := -n 3 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
COUNTING := export PYTHONPATH="$$PWD/tests/counting" CLI_CALLS="$$(mktemp)" &&

.DEFAULT_GOAL := help
GOALS := help setup tools python test-python browser up preview down rerun wait logs stacks shell debug results fetch report compare ui import local kubeconfig env check lint types unit test test-long smoke bench-commands bench-train bench-scale soak audit drill wheel picture
.PHONY: $(GOALS)

# A mistake must not remove or train something else. By now, only unknown variables come from the
# command line; those with an underscore are environment variables. Shells complete with .DEFAULT.
$(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(if $(findstring _,$(name)),,\
    $(error There is no variable $(name), so nothing was run; use one of: $(KNOWN)))))
$(foreach name,$(filter-out $(GOALS) .DEFAULT .PHONY,$(MAKECMDGOALS)),\
    $(error There is no command `make $(name)`, so nothing was run; `make help` lists the commands))
$(if $(and $(filter up down,$(MAKECMDGOALS)),$(JOB)$(TO)),$(error `make up` and `make down` are for all jobs of a stack,\
    so $(if $(JOB),JOB=$(JOB),TO=$(TO)) is not allowed, and nothing was run. To train one job again, use `make rerun JOB=…`;\
    to remove it, delete its entry and run `make up`; to copy the files first, use `make down KEEP=directory`))

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup: python ## install every tool that the stack needs; SOURCE=build: build what can be built
	@$(SLIPWAY) setup $(OF_STACK)

tools: python # `make setup`, silent if nothing is missing
	@$(SLIPWAY) setup --brief $(OF_STACK)

python: ## create only the Python environment
	@"$$ARG_PYTHON" -m scripts.setup.bootstrap

test-python: # the Python environment for checks and tests
	@"$$ARG_PYTHON" -m scripts.setup.bootstrap --tests

browser: test-python # Chromium, for the tests that open pages
	@$(IN_TESTS) tests.browser.chromium

up: python ## create or update the stack: cluster, operator, image, jobs; WAIT=0: don't wait for the runs
	@$(SLIPWAY) up $(OF_STACK) $$([ "$$ARG_WAIT" != 0 ] || echo --detach)

preview: python ## show what `up` would change; JOB=…: also the PyTorchJob of a job that would be trained
	@$(SLIPWAY) preview $(OF_STACK) -- "$$ARG_JOB"

down: python ## destroy the stack and leave nothing behind; KEEP=directory: copy the jobs' files first
	@$(SLIPWAY) down $(OF_STACK) --keep="$$ARG_KEEP"

rerun: python ## run a job again even though nothing about it has changed: JOB=…
	@$(SLIPWAY) rerun $(OF_STACK) -- "$$ARG_JOB"

wait: python ## follow a run started with WAIT=0, and print its result: JOB=…
	@$(SLIPWAY) wait $(OF_STACK) -- "$$ARG_JOB"

logs: python ## show a job's output, past and current: JOB=…, RANK=… for one rank; FOLLOW=0: don't follow
	@$(SLIPWAY) logs $(OF_STACK) $${ARG_RANK:+"--rank=$$ARG_RANK"} --follow="$$ARG_FOLLOW" -- "$$ARG_JOB"

stacks: python ## show the call stack of each rank in a running job: JOB=…, RANK=… for one
	@$(SLIPWAY) stacks $(OF_STACK) $${ARG_RANK:+"--rank=$$ARG_RANK"} -- "$$ARG_JOB"

shell: python ## open a shell in the container of a running rank: JOB=… RANK=1
	@$(SLIPWAY) shell $(OF_STACK) $${ARG_RANK:+"--rank=$$ARG_RANK"} -- "$$ARG_JOB"

debug: python ## connect a debugger to the rank that is waiting for one: JOB=… PORT=5678
	@$(SLIPWAY) debug $(OF_STACK) $${ARG_PORT:+"--port=$$ARG_PORT"} -- "$$ARG_JOB"

results: python ## show each job's last result; JOB=… for details about one, FORMAT=json for programs
	@$(SLIPWAY) results $(OF_STACK) --format="$$ARG_FORMAT" -- "$$ARG_JOB"

fetch: python ## copy the files from a job's last run to your disk, and verify them: JOB=… TO=directory
	@$(SLIPWAY) fetch $(OF_STACK) --to="$$ARG_TO" $${ARG_RUN:+"--run=$$ARG_RUN"} -- "$$ARG_JOB"

ui: python ## show where the runs are tracked; connect to the server in the cluster: JOB=… PORT=5000
	@$(SLIPWAY) ui $(OF_STACK) $${ARG_PORT:+"--port=$$ARG_PORT"} -- "$$ARG_JOB"

report: python ## write a report on the jobs' runs as a web page: JOB=… for one, TO=report.html
	@$(SLIPWAY) report $(OF_STACK) --to="$$ARG_TO" -- "$$ARG_JOB"

compare: python ## compare a job's last run with its baseline and earlier runs: JOB=…, WITH=… for a single run
	@$(SLIPWAY) compare $(OF_STACK) --with="$$ARG_WITH" -- "$$ARG_JOB"

import: python ## convert a PyTorchJob, TrainJob or torchrun Job to a `slipway:jobs` entry: FILE=job.yaml
	@$(SLIPWAY) import $(OF_STACK) -- "$$ARG_FILE"

local: python ## run a job's ranks as processes on this machine, with your own Python, no cluster: JOB=…
	@$(SLIPWAY) local $(OF_STACK) -- "$$ARG_JOB"

kubeconfig: python ## merge the stack's cluster into your own kubeconfig, as context slipway-STACK
	@$(SLIPWAY) kubeconfig $(OF_STACK)

env: python ## print the exports to evaluate before using Pulumi directly: make -s env
	@$(SLIPWAY) env

check: test-python ## check format, lint and types; run unit and program tests (about a minute)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target lint types unit

lint:
	.venv-test/bin/ruff format --check
	.venv-test/bin/ruff check
	.venv-test/bin/lint-imports --no-cache
	@$(IN_TESTS) tests.figures

types:
	.venv-test/bin/mypy

# Two processes, with each file's tests in only one, so that their fixtures are created once. The
# longest files come first.
unit:
	$(IN_TESTS) pytest tests/program tests/unit --numprocesses=2 --dist=loadfile -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test: BEGAN := $(shell date +%s)
test: tools check browser ## run check, then the tests with a real engine, cluster and image
	@$(ENVIRONMENT) $(COUNTING) $(IN_TESTS) pytest tests/engine tests/runs tests/trainer tests/local tests/browser -m "not long" $(SPREAD) --durations=10; \
	ended=$$?; rm -f "$$CLI_CALLS"; echo "make test took $$((($$(date +%s) - $(BEGAN)) / 60)) min"; exit $$ended

test-long: tools test-python browser ## run the tests that take minutes, and print their figures
	$(ENVIRONMENT) $(IN_TESTS) pytest tests -m long --durations=0

smoke: test-python ## check a running stack
	@$(SLIPWAY) smoke $(OF_STACK) --junit="$$ARG_JUNIT"

bench-commands: tools ## benchmark the commands of this and an earlier commit: BASE=… (20 minutes)
	@$(IN_VENV) tests.bench.commands $${ARG_BASE:+"$$ARG_BASE"}

bench-train: tools ## benchmark training in its image (6 minutes; `make up` builds the image)
	@$(IN_VENV) tests.bench.train

bench-scale: tools ## benchmark thousands of pods on simulated nodes, and the commands' slopes: QUICK=1 (10 minutes)
	@$(IN_VENV) tests.bench.scale $${ARG_QUICK:+--quick}

soak: tools ## keep adding and removing jobs, and check for resource leaks: MINUTES=30
	@$(IN_VENV) tests.bench.soak $${ARG_MINUTES:+"$$ARG_MINUTES"}

audit: tools ## compare the rights granted inside a cluster with those that are used (5 minutes)
	@$(IN_VENV) tests.bench.rights

drill: tools test-python ## inject faults in a separate cluster, and check the outcome: ROWS=kubelet (15 minutes)
	@$(ENVIRONMENT) $(IN_TESTS) tests.drill.table $${ARG_ROWS:+"$$ARG_ROWS"}

wheel: python ## build the slipway command and the slipway package for images and programs: dist/*.whl
	@$(IN_VENV) pip wheel --quiet --no-deps --wheel-dir dist . images/trainer
	@ls dist/slipway_*.whl

picture: tools # record the README's picture again, in a separate stack (2 minutes)
	@$(IN_VENV) tests.docs.picture
