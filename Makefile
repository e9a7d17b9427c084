# Slipway from the command line; `make help` lists what there is.
#
#   make up                     everything: tools, cluster, operator, jobs
#   make logs JOB=mnist-gloo RANK=1
#   make up STACK=mine          another stack, with the settings in Pulumi.mine.yaml

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
JUNIT  ?=
SOURCE ?=
FILE   ?=

# A value is text that neither make nor a shell reads as their own: recipes have it as "$$ARG_STACK".
$(foreach name,STACK PYTHON JOB RANK RUN PORT WITH TO KEEP FOLLOW WAIT FORMAT BASE JUNIT SOURCE FILE,\
    $(eval override $(name) := $$(value $(name)))$(eval export ARG_$(name) := $$(value $(name))))
export SOURCE

IN_VENV     := .venv/bin/python -m
IN_TESTS    := .venv-test/bin/python -m
SLIPWAY     := $(IN_VENV) scripts.cli
OF_STACK    := --stack="$$ARG_STACK"
ENVIRONMENT := eval "$$($(SLIPWAY) env)" &&

# With it, every start would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE
# The shell's own Python may be another one. While tests count Pulumi's starts, the path is theirs.
unexport PYTHONHOME PYTHONSAFEPATH $(if $(CLI_CALLS),,PYTHONPATH)
# Files are UTF-8, whatever the locale says.
export PYTHONUTF8 := 1

# Three processes for two cores, since most tests wait for a cluster; a fourth gains nothing.
SPREAD   := -n 3 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
COUNTING := export PYTHONPATH="$$PWD/tests/counting" CLI_CALLS="$$(mktemp)" &&

.DEFAULT_GOAL := help
.PHONY: help setup tools python test-python browser up preview down rerun wait logs stacks shell debug results fetch report compare ui import local kubeconfig env check lint types unit test test-long smoke bench-commands bench-train wheel picture

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup: python ## get every tool that the stack needs; SOURCE=build: none as a binary
	@$(SLIPWAY) setup $(OF_STACK)

tools: python # `make setup` that says nothing when everything is there
	@$(SLIPWAY) setup --brief $(OF_STACK)

python: ## only the Python environment
	@"$$ARG_PYTHON" -m scripts.setup.bootstrap

test-python: # the Python environment of the checks and tests
	@"$$ARG_PYTHON" -m scripts.setup.bootstrap --tests

browser: test-python # Chromium, for the tests that look at pages
	@$(IN_TESTS) tests.browser.chromium

up: python ## bring the stack up: cluster, operator, image, jobs; WAIT=0: leave runs to waiters in the cluster
	@$(SLIPWAY) up $(OF_STACK) $$([ "$$ARG_WAIT" != 0 ] || echo --detach)

preview: python ## show what `up` would change; JOB=…: a new job's complete PyTorchJob, too
	@$(SLIPWAY) preview $(OF_STACK) -- "$$ARG_JOB"

down: python ## destroy the stack and leave nothing behind; KEEP=directory: copy the jobs' files first
	@$(SLIPWAY) down $(OF_STACK) --keep="$$ARG_KEEP"

rerun: python ## train a job again on purpose, though nothing about it has changed: JOB=…
	@$(SLIPWAY) rerun $(OF_STACK) -- "$$ARG_JOB"

wait: python ## follow a run that was left to its waiter, and print how it ends: JOB=…
	@$(SLIPWAY) wait $(OF_STACK) -- "$$ARG_JOB"

logs: python ## what a job prints and printed: JOB=… and, of one rank alone, RANK=…; FOLLOW=0
	@$(SLIPWAY) logs $(OF_STACK) $${ARG_RANK:+"--rank=$$ARG_RANK"} --follow="$$ARG_FOLLOW" -- "$$ARG_JOB"

stacks: python ## where each rank of a running job stands now: JOB=…, and RANK=… for one
	@$(SLIPWAY) stacks $(OF_STACK) $${ARG_RANK:+"--rank=$$ARG_RANK"} -- "$$ARG_JOB"

shell: python ## a shell beside the program of a running rank: JOB=… RANK=1
	@$(SLIPWAY) shell $(OF_STACK) $${ARG_RANK:+"--rank=$$ARG_RANK"} -- "$$ARG_JOB"

debug: python ## lead a debugger to the rank that waits for one: JOB=… PORT=5678
	@$(SLIPWAY) debug $(OF_STACK) $${ARG_PORT:+"--port=$$ARG_PORT"} -- "$$ARG_JOB"

results: python ## how each job has ended last; JOB=… for all of one, FORMAT=json for programs
	@$(SLIPWAY) results $(OF_STACK) --format="$$ARG_FORMAT" -- "$$ARG_JOB"

fetch: python ## copy the files of a job's last run to your disk, and check them: JOB=… and TO=directory
	@$(SLIPWAY) fetch $(OF_STACK) --to="$$ARG_TO" $${ARG_RUN:+"--run=$$ARG_RUN"} -- "$$ARG_JOB"

ui: python ## where the runs are tracked, and the way to the server in the cluster: JOB=… PORT=5000
	@$(SLIPWAY) ui $(OF_STACK) $${ARG_PORT:+"--port=$$ARG_PORT"} -- "$$ARG_JOB"

report: python ## write a page about the jobs' runs, to look at: JOB=… for one, TO=report.html
	@$(SLIPWAY) report $(OF_STACK) --to="$$ARG_TO" -- "$$ARG_JOB"

compare: python ## put a job's last run beside its baseline and earlier ones: JOB=… and WITH=run id
	@$(SLIPWAY) compare $(OF_STACK) --with="$$ARG_WITH" -- "$$ARG_JOB"

import: python ## print a job's entry from a PyTorchJob, a TrainJob or a Job that runs torchrun: FILE=job.yaml
	@$(SLIPWAY) import $(OF_STACK) -- "$$ARG_FILE"

local: python ## run a job's ranks as processes of this machine, in your own Python, without a cluster: JOB=…
	@$(SLIPWAY) local $(OF_STACK) -- "$$ARG_JOB"

kubeconfig: python ## merge the stack's cluster into your own kubeconfig, as context slipway-STACK
	@$(SLIPWAY) kubeconfig $(OF_STACK)

env: python ## exports for working by hand, to be evaluated: make -s env
	@$(SLIPWAY) env

check: test-python ## format, lint, types, unit and program tests (a minute or so)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target lint types unit

lint:
	.venv-test/bin/ruff format --check
	.venv-test/bin/ruff check
	.venv-test/bin/lint-imports --no-cache
	@$(IN_TESTS) tests.figures

types:
	.venv-test/bin/mypy

# Two processes, of which each has files of its own: what a file's tests share is made once. The
# longest files come first.
unit:
	$(IN_TESTS) pytest tests/program tests/unit --numprocesses=2 --dist=loadfile -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test: BEGAN := $(shell date +%s)
test: tools check browser ## check, then the tests on a real engine, cluster and image
	@$(ENVIRONMENT) $(COUNTING) $(IN_TESTS) pytest tests/engine tests/runs tests/trainer tests/local tests/browser -m "not long" $(SPREAD) --durations=10; \
	ended=$$?; rm -f "$$CLI_CALLS"; echo "make test took $$((($$(date +%s) - $(BEGAN)) / 60)) min"; exit $$ended

test-long: tools test-python browser ## the tests that take minutes, with their figures
	$(ENVIRONMENT) $(IN_TESTS) pytest tests -m long --durations=0

smoke: test-python ## check a stack that is up
	@$(SLIPWAY) smoke $(OF_STACK) --junit="$$ARG_JUNIT"

bench-commands: tools ## measure the commands beside an earlier commit's: BASE=… (20 minutes)
	@$(IN_VENV) tests.bench.commands $${ARG_BASE:+"$$ARG_BASE"}

bench-train: tools ## measure the training in its image (6 minutes; `make up` builds the image)
	@$(IN_VENV) tests.bench.train

wheel: python ## the command for any folder, and the package slipway for images and programs: dist/*.whl
	@$(IN_VENV) pip wheel --quiet --no-deps --wheel-dir dist . images/trainer
	@ls dist/slipway_*.whl

picture: tools # record README's picture again, in a stack of its own (2 minutes)
	@$(IN_VENV) tests.docs.picture
