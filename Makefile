# Everything a person types. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/run.stamp
DEV_STAMP := $(VENV)/dev.stamp
# Schemathesis, in an environment of its own: it brings a plugin for pytest.
TORTURE_STAMP := $(VENV)-torture/torture.stamp
# What the Python of simulated containers is built from; an update of it is built before anything starts.
GUEST_STAMP := $(VENV)/guest.stamp
GUEST := kubesim/python/build.py $(shell find kubesim/python/guest kubesim/python/wit -type f -not -name '*.pyc')
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r
INSTALL_FAILED = echo "error: not everything could be installed; the lines above say why. Run: make clean $(or $(MAKECMDGOALS),run)"; exit 1
# Tests wait for servers, timers and browsers more than half of the time: six workers keep two cores busy.
TEST_WORKERS ?= 6

# Where the real control plane's programs are looked for, and built; PATH where it has none.
export TESTCLUSTER_BIN ?= $(HOME)/.cache/faultline/testcluster-bin

# Half a dozen programs, and dozens in tests, would each compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

# Every file with a proof that has a long form, or no other; the contract's are also played with the oldest kubectl.
TORTURE_FILES = $(shell grep -rlE 'TORTURE_ROUNDS|mark\.torture|settings\(\)\.max_examples|^def test.*[ (]kubectl[,)]' --include='test_*.py' e2e sessions faults kubesim interview_site native torture | sort)
RUN_TESTS = $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder -q
RUN_COMPARISONS = $(RUN_TESTS) -m comparison e2e faults interview_site kubesim native torture

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev run test test-gpu compare xids catalog-check lint format e2e bench torture testcluster contract-real rehearse-real parity conformance images lock clean

help: ## List the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(RUN_STAMP) $(GUEST_STAMP) ## Make the virtual environment and install what is locked (nothing but Python and pip)
	@:

setup-dev: $(DEV_STAMP) $(GUEST_STAMP)
	@:

run: setup ## Set up what is missing and start everything; Ctrl-C stops it
	@exec $(BIN)/python -W ignore manage.py up

test: setup-dev ## Run the tests
	@$(RUN_TESTS) $(ARGS)

compare: setup-dev ## Run the comparisons in depth that `make test` leaves out
	@$(RUN_COMPARISONS) $(ARGS)

e2e: setup-dev ## Walk a whole interview in a real browser, with screenshots in e2e/screenshots
	@E2E_PICTURES=1 $(BIN)/python -m pytest e2e -q $(ARGS)

torture: setup-dev $(TORTURE_STAMP) ## The long proofs: 200 crash rounds, every crash point many times, random histories, real programs
	@status=0; $(BIN)/python -W ignore -m torture.rounds --rounds $${CRASH_ROUNDS:-200} || status=1; \
	  $(BIN)/python -W ignore -m torture.rounds --database postgres --places practice,lent \
	    --rounds $${POSTGRES_ROUNDS:-20} || status=1; \
	  $(BIN)/python -W ignore -m torture.agent_rounds --rounds $${AGENT_ROUNDS:-44} || status=1; \
  $(BIN)/python -W ignore -m torture.gpu_fault_page --check || status=1; \
  $(RUN_COMPARISONS) || status=1; \
	  export TORTURE_ROUNDS=$${TORTURE_ROUNDS:-25}; \
	  $(BIN)/python -m pytest -q -p no:cacheprovider $(TORTURE_FILES) $(ARGS) || status=1; \
	  $(BIN)/python -m pytest -q -p no:cacheprovider faults/tests -k crash $(ARGS) || status=1; exit $$status

test-gpu: setup-dev ## Run PyTorch, NCCL and CUDA samples under each CUDA fault, on this machine's GPU; writes docs/gpu-faults-native.md (ARGS=--stub: without a GPU)
	@$(BIN)/python -m native.gpu.record $(ARGS)

bench: setup-dev ## Measure: make bench NAME=kubesim (or isolation, native, nodes, rehearse); figures beside goals, JSON in bench/results
	@TESTCLUSTER_BIN=$(TESTCLUSTER_BIN) $(BIN)/python -m bench $(NAME)

catalog-check: setup ## Prove every pack and variant on practice clusters (ARGS="--scenario SLUG --variant N"); writes docs/catalogue.md
	@$(BIN)/python -W ignore manage.py catalog_check $(ARGS)

xids: setup ## Write what kubesim, the faults app and the C sources use of native/xids.yaml
	@$(BIN)/python native/generate_xids.py
	@$(BIN)/python native/generate_sdk.py

gpu-faults-doc: setup-dev ## Write docs/gpu-faults.md: what every Xid looks like in every layer, seen on practice clusters
	@$(BIN)/python -W ignore -m torture.gpu_fault_page $(ARGS)

lint: setup-dev ## Style, types, layers, templates, licences
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/python -c "from importlinter.cli import lint_imports_command as run; run()" --no-cache
	@find templates -name '*.html' -print0 | xargs -0 $(BIN)/djade --target-version 5.2 --check
	@$(BIN)/python -m interview_site.licences
	@$(BIN)/python -W ignore manage.py makemigrations --check --dry-run
	@$(BIN)/python -W ignore manage.py check

format: setup-dev ## Put everything into form
	@$(BIN)/python -m ruff check --fix-only .
	@$(BIN)/python -m ruff format .
	@find templates -name '*.html' -print0 | xargs -0 $(BIN)/djade --target-version 5.2

testcluster: setup ## Build (once, with Go) and start a real control plane on loopback, to compare kubesim with
	@deploy/testcluster/build.sh
	@$(BIN)/python deploy/testcluster/testcluster.py up

ON_REAL := kubesim/tests/contract faults/tests/test_hostile_pods.py faults/tests/test_node_faults_joined.py faults/tests/test_outside_writes.py faults/tests/test_pack_rights_for_real.py faults/tests/test_shared_pods.py faults/tests/test_terraform_bounds.py sessions/tests/test_real_clusters.py
contract-real: setup-dev ## Check the contract, hostile pods and whole sessions on kubesim and on a real control plane (CONTRACT_KUBECONFIG=FILE: on that one)
	@if [ -n "$(CONTRACT_KUBECONFIG)" ]; then \
	    CONTRACT_KUBECONFIG=$(CONTRACT_KUBECONFIG) $(BIN)/python -m pytest $(ON_REAL) -q $(ARGS); \
	  else PYTHON=$(BIN)/python deploy/testcluster/contract.sh $(ON_REAL) $(ARGS); fi

rehearse-real: setup-dev ## Rehearse every pack and variant on a real control plane with simulated nodes (ARGS="--all --scenario SLUG", "--plan SLUG")
	@deploy/testcluster/build.sh && { deploy/testcluster/build.sh metrics-server || true; } && \
	  $(BIN)/python -W ignore -m torture.rehearse_real $(ARGS)

parity: setup-dev ## Compare what every kubectl (PATH, folders in KUBECTLS) prints on kubesim and on the real thing; writes docs/parity.md
	@PYTHON=$(BIN)/python deploy/testcluster/parity.sh $(ARGS)

conformance: setup-dev ## Run the official suite on kubesim (ARGS="--group cli"; CONFORMANCE_KUBECONFIG=FILE: on that one); writes docs/parity-conformance.md
	@PYTHON=$(BIN)/python deploy/testcluster/conformance.sh $(ARGS)

# The names under which simulated nodes know the images, behind a registry of yours.
IMAGE_BUILDER ?= $(firstword $(foreach name,docker podman buildah,$(shell command -v $(name))))
images: ## Build the images for real clusters: make images REGISTRY=registry.example.com [PUSH=1] [IMAGE_BUILDER=podman]
	@[ -n "$(REGISTRY)" ] || { echo "error: REGISTRY is not set. Run: make images REGISTRY=registry.example.com/team"; exit 1; }
	@[ -n "$(IMAGE_BUILDER)" ] || { echo "error: none of docker, podman and buildah was found. Run: sudo apt install docker.io"; exit 1; }
	@$(IMAGE_BUILDER) build -f deploy/toolbox.Dockerfile -t $(REGISTRY)/toolbox:1 deploy
	@$(IMAGE_BUILDER) build -f deploy/inference-server.Dockerfile -t $(REGISTRY)/inference-server:1.2 deploy
	@$(IMAGE_BUILDER) build -f deploy/kubesim-nodes.Dockerfile -t $(REGISTRY)/kubesim .
	@$(IMAGE_BUILDER) build -f deploy/node-agent.Dockerfile -t $(REGISTRY)/node-agent:1 .
	@$(IMAGE_BUILDER) build -f deploy/cuda-fault/Dockerfile -t $(REGISTRY)/cuda-fault:1 .
	@if [ -n "$(PUSH)" ]; then for image in toolbox:1 inference-server:1.2 kubesim node-agent:1 cuda-fault:1; do $(IMAGE_BUILDER) push $(REGISTRY)/$$image || exit 1; done; fi
	@echo "For real clusters: export TOOLBOX_IMAGE=$(REGISTRY)/toolbox:1 NODE_AGENT_IMAGE=$(REGISTRY)/node-agent:1 INFERENCE_SERVER_IMAGE=$(REGISTRY)/inference-server:1.2"

lock: ## Resolve requirements/*.in again (needs uv), and see that all of it has wheels wherever we run
	@for name in run dev torture; do uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --annotation-style line \
	  requirements/$$name.in -o requirements/$$name.lock || exit 1; done
	@$(PYTHON) requirements/wheels.py requirements/run.lock requirements/dev.lock requirements/torture.lock

clean: ## Remove what set-up and tests made; data/ stays
	@rm -rf $(VENV) $(VENV)-torture .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) was not found. Run: sudo apt install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Python 3.11 or newer is needed, $$($(PYTHON) -V 2>&1) was found. Run: make $(or $(MAKECMDGOALS),run) PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "error: Python's venv module is missing. Run: sudo apt install python3-venv"; exit 1; }
	@[ -w . ] || { echo "error: this folder cannot be written to. Run: sudo chown -R $$(id -un) ."; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
	  echo "error: the virtual environment could not be made; the lines above say why. Run: sudo apt install python3-venv"; exit 1; }

$(RUN_STAMP): requirements/run.lock | $(VENV)/bin/python
	@echo "Installing the locked packages (once; about a minute) ..."
	@$(INSTALL) requirements/run.lock || { $(INSTALL_FAILED); }
	@$(BIN)/python -c "from hcl2.parser import parser; parser()" # keeps the grammar of Terraform's language compiled
	@touch $@

$(GUEST_STAMP): $(GUEST) | $(RUN_STAMP)
	@echo "Building the Python of simulated containers (once; up to two minutes, and silent) ..."
	@$(BIN)/python -m kubesim.python.build || true
	@touch $@

$(TORTURE_STAMP): requirements/torture.lock | $(VENV)/bin/python
	@$(BIN)/python -m venv --clear $(VENV)-torture
	@$(VENV)-torture/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/torture.lock \
	  || { $(INSTALL_FAILED); }
	@touch $@

$(DEV_STAMP): requirements/dev.lock $(RUN_STAMP)
	@echo "Installing the locked test tools (once) ..."
	@$(INSTALL) requirements/dev.lock || { $(INSTALL_FAILED); }
	@touch $@
